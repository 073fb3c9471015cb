// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/server/messages.hpp"
#include "rubato/server/read_slot.hpp"
#include "rubato/wire/archive.hpp"
#include "rubato/wire/frame.hpp"
#include "rubato/wire/secret.hpp"

namespace rubato::wire {

/// Kinds of frames between the processes of a run. Those with the reliable bit arrive exactly once.
enum class kind : std::uint8_t {
  request = first_user_kind,  ///< of a read; sequence is its ticket
  reply,                      ///< to it, with the same ticket
  refused,                    ///< a read, or with ticket 0 a commit
  count,                      ///< how many commits have been counted? with a ticket
  counted,
  memory,    ///< to a process on the same machine: a server's, where chunks lie; another's, where lies what it sends
  mapped,    ///< that process can read it; sequence is the number of that memory
  released,  ///< it has read an answer there; sequence is the answer's pin
  control = reliable_bit | first_user_kind,
  commit,
  values,   ///< of rows of a table: before any run, or of what a stage has had with it
  moved_rows,  ///< from one worker process to another
  peer_message,  ///< the same between peers
  share,         ///< a peer's parameters, for the coordinator
  average,       ///< of all peers' parameters, from it
  returned,      ///< the number of a commit, or of a message, whose values have been read where they lie
};

[[nodiscard]] constexpr std::uint8_t operator+(kind k) noexcept {
  return static_cast<std::uint8_t>(k);
}

/// Who asks without being a worker: for the folded state, at once.
inline constexpr std::uint32_t observer = ~std::uint32_t{0};

/// What a commit's body holds of one table: row numbers, then values, as the table's codec writes them if it has one.
struct part_size {
  bool whole = false;
  std::uint64_t rows = 0;
  std::uint64_t bytes = 0;  ///< of the values
  std::uint64_t place = 0;  ///< where these lie in the memory that the worker lends; 0: in the body
  bool in_turns = false;    ///< a piece of each stretch of what lies there is in the body: see `lent_turns`

  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & whole & rows & bytes & place & in_turns;
  }
};

struct commit_meta {
  stage_id stage{};
  clock_index stamp{};
  version_index version{};
  std::vector<part_size> parts;  ///< one for each table

  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage & stamp & version & parts;
  }
};

/// Of a read of one table. What a worker asks about others at the same clock and bound before it is answered waits with
/// it, where it waits. The body holds the cut's clocks, then the rows.
struct request_meta {
  stage_id stage{};
  clock_index clock{};
  staleness bound{};
  selection asked{};
  std::uint64_t rows = 0;
  bool has_cut = false;
  std::uint64_t cut_size = 0;
  clock_index cut_c_min{};
  bool renews = false;

  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage & clock & bound & asked & rows & has_cut & cut_size & cut_c_min & renews;
  }
};

/// Memory that processes on the same machine may look at: a file without a name, which `file` of `process` refers to.
struct memory_meta {
  std::uint64_t number = 0;
  std::uint32_t process = 0;
  std::uint32_t file = 0;
  std::uint64_t bytes = 0;
  secret key{};  ///< which it begins with

  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & number & process & file & bytes & key;
  }
  friend bool operator==(memory_meta const&, memory_meta const&) = default;
};

/// The body holds the rows' values, to workers as the table's codec writes them if it has one; of all rows of a sparse
/// table first their numbers. Where the answer is pinned, it holds where in the server's memory each chunk lies.
struct reply_meta {
  clock_index server_clock{};
  clock_index included{};
  version_index version{};
  clock_index folded_below{};
  duration held{};  ///< how long the protocol did not let the read go on
  selection asked{};
  std::uint64_t rows = 0;  ///< numbers in the body
  std::uint64_t pin = 0;   ///< what keeps the chunks as they are until it is released; 0: they are in the body
  std::uint32_t slot = 0;  ///< where in the memory it stands for as long as it holds

  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & server_clock & included & version & folded_below & held & asked & rows & pin & slot;
  }
};

/// The body holds the keys, of a table that is not bounded, then the values.
struct moved_rows_meta {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::uint64_t keys = 0;
  bool changed = false;

  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & first & count & keys & changed;
  }
};

/// The body holds parameters, if it is a message with any that are not lent.
struct peer_meta {
  stage_id stage{};
  std::uint8_t kind = 0;
  std::int64_t number = 0;
  std::uint64_t place = 0;  ///< where they lie in the memory that the sender lends; 0: in the body
  std::uint64_t bytes = 0;  ///< of those that lie there

  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage & kind & number & place & bytes;
  }
};

/// Of a share, or of the average: the body holds parameters.
struct parameters_meta {
  stage_id stage{};

  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage;
  }
};

struct refused_meta {
  stage_id stage{};
  refusal reason{};

  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage & reason;
  }
};

template <class Meta>
[[nodiscard]] std::vector<std::byte> to_bytes(Meta const& meta) {
  output_archive out;
  out << meta;
  return out.take();
}
/// The same into memory that is there already.
template <class Meta>
void write(Meta const& meta, std::vector<std::byte>& to) {
  output_archive out(std::move(to));
  out << meta;
  to = out.take();
}
/// @throws frame_error
template <class Meta>
[[nodiscard]] Meta from_bytes(std::span<std::byte const> bytes) {
  input_archive in(bytes);
  Meta meta;
  in >> meta;
  in.expect_end();
  return meta;
}

/// The bytes of an array, as they lie.
template <class T>
[[nodiscard]] std::span<std::byte> bytes_of(std::vector<T>& v) noexcept {
  return std::as_writable_bytes(std::span(v));
}
template <class T>
[[nodiscard]] std::span<std::byte const> bytes_of(std::vector<T> const& v) noexcept {
  return std::as_bytes(std::span(v));
}

}  // namespace rubato::wire
