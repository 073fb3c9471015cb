// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Cuts any bytes, which come in any pieces, into frames, and compares with who has all of them.
#include "rubato/net/impl/frame_reader.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/input.hpp"
#include "rubato/core/error.hpp"

namespace rubato::fuzz {
namespace {

constexpr std::uint64_t body_max = 320 * 1024;  // more than the reader has room for
constexpr std::size_t stream_max = 1024 * 1024;
constexpr std::size_t usual_room = 256 * 1024;
// Kinds by which an owner does what others do not.
constexpr std::uint8_t refused_kind = 200;     // throws
constexpr std::uint8_t last_kind = 201;        // wants no more
constexpr std::uint8_t short_room_kind = 202;  // gives room for less than the body
constexpr std::uint8_t refused_at_end_kind = 203;

enum class ending : std::uint8_t { none, refused, short_room, detached };

struct frame {
  wire::frame_header header;
  bytes meta;
  bytes body;
};

struct outcome {
  std::vector<frame> frames;
  ending how = ending::none;
};

/// What an owner is to be told, by who has all bytes at once.
class naive_reader {
 public:
  naive_reader(std::span<std::byte const> stream, std::size_t meta_max)
      : rest_(stream), meta_max_(meta_max) {}

  [[nodiscard]] outcome read() {
    while (next()) {
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool stop(ending how) {
    result_.how = how;
    return false;
  }

  [[nodiscard]] bool next() {
    if (rest_.size() < wire::frame_header_size) return false;
    frame f;
    try {
      f.header = wire::decode(rest_.first<wire::frame_header_size>());
    } catch (wire::frame_error const&) {
      return stop(ending::refused);
    }
    bool const heartbeat = f.header.kind == 0;
    if (f.header.meta > meta_max_) return stop(ending::refused);
    if (heartbeat && (f.header.meta != 0 || f.header.length != 0)) return stop(ending::refused);
    rest_ = rest_.subspan(wire::frame_header_size);
    if (rest_.size() < f.header.meta) return false;
    auto const meta = rest_.first(f.header.meta);
    rest_ = rest_.subspan(meta.size());
    if (heartbeat) return true;
    if (f.header.kind == refused_kind || f.header.length > body_max) return stop(ending::refused);
    if (f.header.kind == short_room_kind && f.header.length > 0)  // noticed once the room there is has been filled
      return rest_.size() >= f.header.length - 1 && stop(ending::short_room);
    if (rest_.size() < f.header.length) return false;
    auto const body = rest_.first(static_cast<std::size_t>(f.header.length));
    rest_ = rest_.subspan(body.size());
    if (f.header.kind == refused_at_end_kind) return stop(ending::refused);
    f.meta.assign(meta.begin(), meta.end());
    f.body.assign(body.begin(), body.end());
    result_.frames.push_back(std::move(f));
    return result_.frames.back().header.kind != last_kind || stop(ending::detached);
  }

  std::span<std::byte const> rest_;
  std::size_t meta_max_;
  outcome result_;
};

/// Keeps what it is told. Each part of a body is memory of its own, so that the sanitizer sees a
/// byte that goes beside it.
class owner final : public net::frame_receiver {
 public:
  explicit owner(input& choices) noexcept : choices_(choices) {}

  void begin(wire::frame_header const& header, std::span<std::byte const> meta,
             std::vector<std::span<std::byte>>& body) override {
    FUZZ_REQUIRE(!in_frame_ && attached != nullptr);
    FUZZ_REQUIRE(header.kind != 0 && header.meta == meta.size() && body.empty());
    if (header.kind == refused_kind || header.length > body_max) throw wire::frame_error("refused");
    in_frame_ = true;
    under_way_ = {header, bytes(meta.begin(), meta.end()), {}};
    parts_.clear();
    auto left = static_cast<std::size_t>(header.length);
    if (header.kind == short_room_kind && left > 0) --left;
    for (std::size_t cuts = choices_.below(70); cuts > 0; --cuts)
      add_part(std::min<std::size_t>(left, choices_.byte() * std::size_t{64}), left, body);
    add_part(left, left, body);
  }

  void end(wire::frame_header const& header) override {
    FUZZ_REQUIRE(in_frame_ && header == under_way_.header);
    in_frame_ = false;
    if (header.kind == refused_at_end_kind) throw wire::frame_error("refused at its end");
    for (part const& p : parts_) append(under_way_.body, {p.bytes.get(), p.size});
    ended.push_back(std::move(under_way_));
    if (header.kind == last_kind) attached = nullptr;
  }

  void closed(std::string const&) override {}

  [[nodiscard]] bool has_room(std::span<std::byte const> in) const {
    return std::ranges::any_of(parts_, [in](part const& p) {
      return in.data() >= p.bytes.get() && in.data() + in.size() == p.bytes.get() + p.size;
    });
  }

  net::frame_receiver* attached = this;
  std::vector<frame> ended;

 private:
  struct part {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size;
  };

  void add_part(std::size_t size, std::size_t& left, std::vector<std::span<std::byte>>& body) {
    left -= size;
    parts_.push_back({std::make_unique<std::byte[]>(size), size});
    body.emplace_back(parts_.back().bytes.get(), size);
  }

  input& choices_;
  frame under_way_{};
  std::vector<part> parts_;
  bool in_frame_ = false;
};

/// Puts bytes where the reader wants them, and tells it.
class feeder {
 public:
  feeder(std::size_t meta_max, input& choices)
      : room_max_(std::max(usual_room, wire::frame_header_size + meta_max)),
        reader_(meta_max),
        owner_(choices) {}

  /// At most so many bytes from the front of the stream; returns how many went in.
  [[nodiscard]] std::size_t feed(std::span<std::byte const> stream, std::size_t at_most) {
    auto const room = reader_.room();
    std::size_t const size = size_of(room);
    std::size_t const sure = reader_.sure();
    FUZZ_REQUIRE(size > 0);
    FUZZ_REQUIRE(sure <= size);
    if (sure > 0)
      for (auto const& buffer : room) FUZZ_REQUIRE(owner_.has_room(as_span(buffer)));
    else
      FUZZ_REQUIRE(room.size() == 1 && size <= room_max_);
    auto rest = stream.first(std::min({stream.size(), at_most, size}));
    std::size_t const bytes = rest.size();
    for (auto const& buffer : room) {
      auto const piece = rest.first(std::min(rest.size(), buffer.size()));
      if (!piece.empty()) std::memcpy(buffer.data(), piece.data(), piece.size());
      rest = rest.subspan(piece.size());
    }
    std::size_t const before = owner_.ended.size();
    std::size_t const told = reader_.arrived(bytes, owner_.attached);
    FUZZ_REQUIRE(told == owner_.ended.size() - before);
    return bytes;
  }
  [[nodiscard]] bool is_attached() const noexcept { return owner_.attached != nullptr; }
  [[nodiscard]] std::vector<frame> take() noexcept { return std::move(owner_.ended); }

 private:
  static std::span<std::byte const> as_span(boost::asio::mutable_buffer const& b) {
    return {static_cast<std::byte const*>(b.data()), b.size()};
  }
  static std::size_t size_of(std::span<boost::asio::mutable_buffer const> room) {
    std::size_t sum = 0;
    for (auto const& buffer : room) sum += buffer.size();
    return sum;
  }

  std::size_t room_max_;
  net::frame_reader reader_;
  owner owner_;
};

outcome read_in_pieces(std::span<std::byte const> stream, std::size_t meta_max, input& choices) {
  feeder f(meta_max, choices);
  outcome result;
  try {
    while (!stream.empty() && f.is_attached()) {
      std::size_t const small = choices.byte();
      std::size_t const piece = small < 128 ? small + 1 : (small - 127) * std::size_t{2048};
      stream = stream.subspan(f.feed(stream, choices.empty() ? stream.size() : piece));
    }
    if (!f.is_attached()) result.how = ending::detached;
  } catch (wire::frame_error const&) {
    result.how = ending::refused;
  } catch (error const& e) {
    FUZZ_REQUIRE(e.code() == errc::wrong_size);
    result.how = ending::short_room;
  }
  result.frames = f.take();
  return result;
}

std::uint64_t body_length(input& from) {
  std::uint8_t const choice = from.byte();
  if (choice < 100) return choice;
  if (choice < 250) return (choice - 99) * std::uint64_t{2200};
  return from.raw<std::uint64_t>();
}

/// A frame with a body as long as its header says, most often.
void append_frame(bytes& to, input& from) {
  wire::frame_header h;
  h.kind = from.byte();
  if (h.kind < 40) h.kind = 0;  // a heartbeat is as short as frames get
  h.table = from.byte();
  h.sender = from.byte();
  h.incarnation = from.byte();
  h.sequence = from.number();
  std::uint8_t const meta = from.byte();
  h.meta = meta < 250 ? meta : (meta - 249U) * 60'000U;
  h.length = body_length(from);
  if (h.kind == 0 && meta < 224) h.meta = 0;
  if (h.kind == 0 && meta % 32 != 31) h.length = 0;
  std::size_t const at = to.size();
  to.resize(at + wire::frame_header_size);
  wire::encode(h, std::span(to).subspan(at).first<wire::frame_header_size>());
  std::size_t const room = stream_max - std::min(stream_max, to.size());
  append_pattern(to, std::min<std::size_t>(h.meta, room), meta);
  append_pattern(to, static_cast<std::size_t>(std::min<std::uint64_t>(h.length, body_max)), h.kind);
}

/// Frames, which a mutation can reach every field of, with any bytes here and there.
bytes make_stream(input& from) {
  bytes stream;
  for (std::size_t frames = from.below(16); frames > 0 && stream.size() < stream_max; --frames) {
    append_frame(stream, from);
    if (from.below(32) == 31) append(stream, from.take(from.byte()));
    if (from.below(32) == 31)
      stream.resize(stream.size() - std::min<std::size_t>(stream.size(), from.byte()));
  }
  append(stream, from.take(from.byte()));
  return stream;
}

bool same(frame const& a, frame const& b) {
  return a.header == b.header && a.meta == b.meta && a.body == b.body;
}

}  // namespace
}  // namespace rubato::fuzz

// Each input takes large buffers anew.
extern "C" char const* __asan_default_options() { return "quarantine_size_mb=16"; }

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace rubato::fuzz;
  input from(std::as_bytes(std::span(data, size)));
  std::size_t const meta_max = from.flag() ? 100 : 300 * 1024;
  bytes const stream = make_stream(from);
  outcome const expected = naive_reader(stream, meta_max).read();
  outcome const got = read_in_pieces(stream, meta_max, from);
  FUZZ_REQUIRE(got.how == expected.how);
  FUZZ_REQUIRE(std::ranges::equal(got.frames, expected.frames, same));
  return 0;
}
