// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "rubato/core/element.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/net/link.hpp"
#include "rubato/run/peer_runtime.hpp"
#include "rubato/storage/shared_update.hpp"
#include "rubato/transport/processes/lent_messages.hpp"
#include "rubato/wire/messages.hpp"

namespace rubato::detail {

/// What peers' parameters are, which limits what may arrive.
struct parameters_shape {
  element_type element{};
  std::size_t size = 0;
  [[nodiscard]] std::size_t bytes() const noexcept { return size * size_of(element); }
};

/// Parameters on their way, sent from where they are, or lent there.
class parameters_frame final : public net::reliable_frame {
 public:
  /// A message between peers, from the peer of this rank. @param place where its parameters lie in the memory that its
  /// receiver sees; 0: they are sent
  parameters_frame(stage_id stage, std::uint32_t rank, peer_message m, std::uint64_t place = 0);
  /// A share, or an average.
  parameters_frame(wire::kind kind, stage_id stage, shared_update parameters);

  [[nodiscard]] wire::frame_header header() const override;
  [[nodiscard]] std::span<std::byte const> meta() const override { return meta_; }
  void gather(std::vector<std::span<std::byte const>>& body) const override;
  [[nodiscard]] std::size_t lent() const override { return is_lent_ ? parameters_->values.size_bytes() : 0; }

 private:
  wire::kind kind_;
  std::uint32_t rank_ = 0;
  bool is_lent_ = false;
  std::vector<std::byte> meta_;
  shared_update parameters_;
};

/// What is arriving from one neighbor: checked before memory is taken, and received into a block of its own, or left
/// where it lies in the neighbor's memory, and so it goes to the node.
class arriving_message {
 public:
  explicit arriving_message(parameters_shape const& shape) : shape_(shape) {}

  /// @param lent the neighbor's memory, if it is seen here
  /// @throws wire::frame_error for one that no peer of this group sends
  void begin(wire::frame_header const& header, std::span<std::byte const> meta, arena_view const* lent = nullptr);
  [[nodiscard]] stage_id stage() const noexcept { return meta_.stage; }
  /// Where its body goes; the second for one that nobody wants any more.
  void receive(std::vector<std::span<std::byte>>& body);
  void discard(std::vector<std::span<std::byte>>& body);
  /// Whether its parameters are to be returned, whoever wants them.
  [[nodiscard]] bool is_lent() const noexcept { return meta_.place != 0; }
  /// It is there, in the frame of this number. @param from whose it is, if any may be lent
  [[nodiscard]] peer_message take(std::uint64_t frame = 0, lent_messages const* from = nullptr);
  /// It will not come to its end.
  void drop() noexcept { parameters_ = update_buffer(); }

 private:
  void check_place(wire::frame_header const& header, arena_view const* lent) const;

  parameters_shape shape_;
  wire::peer_meta meta_{};
  std::size_t length_ = 0;
  update_pool pool_;
  update_buffer parameters_;
  std::vector<std::byte> waste_;
};

/// The sum of parameters that arrive one after another, in double precision, and their average.
class parameters_average {
 public:
  explicit parameters_average(parameters_shape const& shape) : shape_(shape) {}

  void restart();
  void add(std::span<std::byte const> parameters);
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  /// As `peer_group` computes it where all peers are in one process, to the last bit. @pre count() != 0
  [[nodiscard]] shared_update result() const;
  /// Euclidean, of parameters from their average.
  [[nodiscard]] static double distance(element_type element, std::span<std::byte const> from,
                                       std::span<std::byte const> average);

 private:
  parameters_shape shape_;
  std::vector<double> sum_;
  std::size_t count_ = 0;
};

}  // namespace rubato::detail
