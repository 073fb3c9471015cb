// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rubato/net/network.hpp"
#include "rubato/testing/liar.hpp"
#include "rubato/wire/messages.hpp"

namespace rubato::testing {

std::string_view to_string(lie what) noexcept {
  constexpr std::array<std::string_view, lie_kinds> names{
      "stamp again",    "stamp ahead",    "another stage", "another worker", "another life", "too many rows",
      "too few values", "too few tables", "strange row",   "row twice",      "frame again",  "frame ahead",
      "spare connection"};
  return names[static_cast<std::size_t>(what)];
}

namespace detail {

/// A commit as it is about to be sent.
struct commit_on_its_way {
  rubato::wire::frame_header header;
  rubato::wire::commit_meta meta;
  std::vector<std::byte> body;  ///< of each part its row numbers, then its values
};

/// What a liar knows of itself: makes lies of its commits.
class liar {
 public:
  /// Learns from a commit as it is.
  void look_at(commit_on_its_way const& c) {
    own_.insert(c.header.sender);
    for (std::size_t i = 0; i < c.meta.parts.size(); ++i)
      if (c.meta.parts[i].whole) whole_.insert(i);
  }
  /// Returns whether this lie can be told with this commit; it is one then.
  [[nodiscard]] bool tell(lie what, commit_on_its_way& c) const {
    if (!bend(what, c)) return false;
    if (what != lie::strange_row && what != lie::row_twice && what != lie::spare_connection) falsify(c);
    return true;
  }

 private:
  [[nodiscard]] bool bend(lie what, commit_on_its_way& c) const {
    switch (what) {
      case lie::stamp_again:
        if (c.meta.stamp == clock_index{0}) return false;
        c.meta.stamp = clock_index{c.meta.stamp.value() - 1};
        return true;
      case lie::stamp_ahead: c.meta.stamp = c.meta.stamp.next(); return true;
      case lie::another_stage: c.meta.stage = stage_id{c.meta.stage.value() + 1}; return true;
      case lie::another_worker: c.header.sender = somebody_else(c.header.sender); return true;
      case lie::another_life: c.header.incarnation += c.header.incarnation == 0 ? 1u : ~0u; return true;
      case lie::too_many_rows: c.meta.parts.front().rows += std::uint64_t{1} << 40; return true;
      case lie::too_few_values: return shorten(c);
      case lie::too_few_tables: c.meta.parts.pop_back(); return true;
      case lie::strange_row: return change_rows(c, whole_, 1, [](std::byte* last) {
          std::uint64_t const far = std::uint64_t{1} << 62;
          std::memcpy(last, &far, sizeof far);
        });
      case lie::row_twice: return change_rows(c, {}, 2, [](std::byte* last) {
          std::memcpy(last, last - sizeof(std::uint64_t), sizeof(std::uint64_t));
        });
      case lie::frame_again: --c.header.sequence; return true;
      case lie::frame_ahead: ++c.header.sequence; return true;
      case lie::spare_connection: return true;
    }
    return false;
  }

  /// Not the other worker of a process of two, whose next commit this one could be.
  [[nodiscard]] std::uint32_t somebody_else(std::uint32_t self) const {
    std::uint32_t other = 0;
    while (own_.contains(other) || other == (self ^ 1)) ++other;
    return other;
  }

  static bool shorten(commit_on_its_way& c) {
    auto const part = std::ranges::find_if(c.meta.parts, [](auto const& p) { return p.bytes != 0; });
    if (part == c.meta.parts.end()) return false;
    --part->bytes;
    c.body.pop_back();
    return true;
  }

  /// `f(last)` changes the last row number of a part of at least so many rows, of one of these tables, if there are
  /// any.
  template <class F>
  static bool change_rows(commit_on_its_way& c, std::set<std::size_t> const& tables, std::uint64_t least, F f) {
    std::uint64_t at = 0;
    for (std::size_t i = 0; i < c.meta.parts.size(); ++i) {
      rubato::wire::part_size const& p = c.meta.parts[i];
      if (p.rows >= least && (least > 1 || tables.contains(i))) {
        f(c.body.data() + at + (p.rows - 1) * sizeof(std::uint64_t));
        return true;
      }
      at += p.rows * sizeof(std::uint64_t) + p.bytes;
    }
    return false;
  }

  static void falsify(commit_on_its_way& c) {
    std::size_t at = 0;
    for (rubato::wire::part_size const& p : c.meta.parts) {
      at = std::min(c.body.size(), at + static_cast<std::size_t>(p.rows) * sizeof(std::uint64_t));
      std::size_t const end = std::min(c.body.size(), at + static_cast<std::size_t>(p.bytes));
      std::fill(c.body.begin() + static_cast<std::ptrdiff_t>(at), c.body.begin() + static_cast<std::ptrdiff_t>(end),
                false_byte);
      at = end;
    }
  }

  std::set<std::uint32_t> own_;    ///< workers of this process
  std::set<std::size_t> whole_;    ///< tables that have all rows
};

/// A connection whose other end answers nobody: it is open as long as the other end wants it.
class spare_connection final : public net::frame_receiver {
 public:
  explicit spare_connection(std::unique_ptr<net::connection> c) : connection_(std::move(c)) {
    connection_->attach(*this);
  }
  [[nodiscard]] net::connection& line() noexcept { return *connection_; }

  void begin(rubato::wire::frame_header const& header, std::span<std::byte const>,
             std::vector<std::span<std::byte>>& body) override {
    unread_.resize(static_cast<std::size_t>(header.length));
    body.emplace_back(unread_);
  }
  void end(rubato::wire::frame_header const&) override {}
  void closed(std::string const&) override {}

 private:
  std::unique_ptr<net::connection> connection_;
  std::vector<std::byte> unread_;
};

/// How a connection was made, and what was said on it first.
struct beginning {
  net::address to;
  net::security keys;
  net::connection_options options;
  std::uint8_t kind = 0;
  std::vector<std::byte> hello = {};
};

/// What all connections of a liar share.
struct liar_state {
  explicit liar_state(lies when) : asked(std::move(when)) {}
  lies asked;
  liar self;
  /// Says the same on another connection that begins in the same way.
  std::function<void(beginning const& as, commit_on_its_way said)> repeat;
};

class lying_connection final : public net::connection {
 public:
  lying_connection(std::unique_ptr<net::connection> honest, liar_state& state, beginning how)
      : honest_(std::move(honest)), state_(state), how_(std::move(how)) {}

  void attach(net::frame_receiver& owner) override { honest_->attach(owner); }
  void send(rubato::wire::frame_header header, std::span<std::byte const> meta,
            std::span<std::byte const> body) override {
    if (how_.kind == 0) {
      how_.kind = header.kind;
      how_.hello.assign(meta.begin(), meta.end());
    }
    if (header.kind != +rubato::wire::kind::commit) return honest_->send(header, meta, body);
    send_commit({header, rubato::wire::from_bytes<rubato::wire::commit_meta>(meta), {body.begin(), body.end()}});
  }
  void send(rubato::wire::frame_header header, std::span<std::byte const> meta, std::uint64_t length,
            std::unique_ptr<net::body_source> body) override {
    if (header.kind != +rubato::wire::kind::commit) return honest_->send(header, meta, length, std::move(body));
    commit_on_its_way c{header, rubato::wire::from_bytes<rubato::wire::commit_meta>(meta), {}};
    while (c.body.size() < length) {
      auto const piece = body->next();
      c.body.insert(c.body.end(), piece.begin(), piece.end());
    }
    send_commit(std::move(c));
  }
  void flush() override { honest_->flush(); }
  [[nodiscard]] std::size_t unsent() const noexcept override { return honest_->unsent(); }
  void close() noexcept override { honest_->close(); }
  [[nodiscard]] bool is_open() const noexcept override { return honest_->is_open(); }
  [[nodiscard]] std::string peer() const override { return honest_->peer(); }
  [[nodiscard]] net::peer_identity shown() const override { return honest_->shown(); }
  [[nodiscard]] std::optional<std::chrono::microseconds> round_trip() const override { return honest_->round_trip(); }

 private:
  void send_commit(commit_on_its_way c) {
    state_.self.look_at(c);
    auto const what = state_.asked.next();
    bool const lies = what && state_.self.tell(*what, c);
    if (lies) state_.asked.told(*what);
    honest_->send(c.header, rubato::wire::to_bytes(c.meta), c.body);
    if (lies && *what == lie::spare_connection) state_.repeat(how_, std::move(c));
  }

  std::unique_ptr<net::connection> honest_;
  liar_state& state_;
  beginning how_;
};

class lying_network_at_work final : public net::network_decorator {
 public:
  lying_network_at_work(std::unique_ptr<net::network> honest, lies const& when)
      : network_decorator(std::move(honest)), state_(when) {
    state_.repeat = [this](beginning const& as, commit_on_its_way said) { repeat(as, std::move(said)); };
  }

  std::shared_ptr<void> dial(net::address const& to, net::security const& keys, net::connection_options const& options,
                             dialed done) override {
    beginning const how{to, keys, options};
    auto const lie = [this, how, done = std::move(done)](auto fresh, auto const& why, bool refused) {
      if (fresh) fresh = std::make_unique<lying_connection>(std::move(fresh), state_, how);
      done(std::move(fresh), why, refused);
    };
    return inner().dial(to, keys, options, lie);
  }

 private:
  void repeat(beginning const& as, commit_on_its_way said) {
    auto const say = [this, as, said = std::move(said)](auto fresh, auto const&, bool) {
      if (!fresh) return;
      spare_.push_back(std::make_unique<spare_connection>(std::move(fresh)));
      net::connection& line = spare_.back()->line();
      rubato::wire::frame_header first;
      first.kind = as.kind;
      line.send(first, as.hello);
      line.send(said.header, rubato::wire::to_bytes(said.meta), said.body);
      line.flush();
    };
    dials_.push_back(inner().dial(as.to, as.keys, as.options, say));
  }

  liar_state state_;
  std::vector<std::shared_ptr<void>> dials_;
  std::vector<std::unique_ptr<spare_connection>> spare_;
};

}  // namespace detail

net::network_maker lying_network(net::network_maker honest, lies when) {
  return [honest = std::move(honest), when = std::move(when)]() -> std::unique_ptr<net::network> {
    return std::make_unique<detail::lying_network_at_work>(honest(), when);
  };
}

}  // namespace rubato::testing
