// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "fuzz/wire_end.hpp"
#include "rubato/server/coordinator.hpp"

namespace rubato::fuzz {

/// Stands in for the coordinator process of a server: gives it its place and its orders, in the
/// order in which a real one does, for the server trusts it.
class coordinator_end {
 public:
  struct member {
    std::uint32_t process;
    std::uint32_t incarnation;
    bool live = true;
    std::int64_t clock = 0;  ///< where it starts; whoever commits for it counts on
  };

  /// @param fd a connection that the server has made
  coordinator_end(int fd, bool synchronized, std::function<void()> const& pump)
      : synchronized_(synchronized),
        pump_(pump),
        end_(fd, greeting().size() + 1, pump),
        orders_(1, synchronized) {
    bytes opening{std::byte{0}};
    append(opening, greeting(net::role::coordinator));
    opening.push_back(std::byte{0});
    append(opening, encoded({.header = own_header(own::welcome), .meta = {}, .body = {}}));
    end_.send(opening);
    say(wire::welcome{.process = 0, .incarnation = 0, .workers = 1, .servers = {""}});
  }

  [[nodiscard]] stage_id stage() const noexcept { return stage_; }
  [[nodiscard]] std::vector<member>& members() noexcept { return members_; }
  /// What the coordinator lets a worker read now, until it is released.
  [[nodiscard]] shared_cut grant(worker_id w) { return orders_.cuts().grant(w, true); }
  void release(worker_id w) {
    orders_.cuts().release(w);
    follow_cuts();
  }

  void begin_stage() {
    stage_ = stage_id{stage_.value() + 1};
    members_.clear();
    is_stage_over_ = false;
    orders_.begin_stage(stage_);
    say(wire::begin_stage{stage_, 0, false});
  }
  worker_id join(std::uint32_t process, std::uint32_t incarnation) {
    worker_id const w{static_cast<std::uint32_t>(members_.size())};
    members_.push_back({process, incarnation});
    order(orders_.join(w, incarnation_id{incarnation}));
    return w;
  }
  /// This life has begun, if it has not yet; the one before is over then.
  void admit(std::uint32_t process, std::uint32_t incarnation) {
    std::uint32_t& next = next_life_[process];
    if (incarnation < next) return;
    if (next != 0) lose(process, incarnation - 1);
    next = incarnation + 1;
    say(wire::admission{process, incarnation, secret_of(process, incarnation)});
  }
  /// It has ended by itself, and says that it was at this clock.
  void leave(worker_id w, clock_index at) {
    if (std::exchange(members_.at(w.index()).live, false)) order(orders_.leave(w, at));
  }
  /// All of this process's lives up to this one are over.
  void lose(std::uint32_t process, std::uint32_t incarnation) {
    for (std::uint32_t w = 0; w < members_.size(); ++w) {
      member& m = members_[w];
      if (m.process != process || m.incarnation > incarnation || !m.live) continue;
      m.live = false;
      if (auto const o = orders_.lose(worker_id{w})) order(*o);
    }
    std::uint32_t& next = next_life_[process];
    next = std::max(next, incarnation + 1);
    say(wire::expel{process, incarnation});
  }
  void end_stage() { say(wire::end_stage{stage_}); }
  void shut_down() { say(wire::shut_down{}); }
  [[nodiscard]] bool is_stage_over() const noexcept { return is_stage_over_; }

  /// Lets the server work, and answers its reports, until it has nothing more to say.
  void settle() {
    bool heard = true;
    while (heard) {
      heard = false;
      pump_();
      end_.receive();
      while (auto const f = end_.next()) {
        if (f->header.kind != +wire::kind::control) continue;
        std::visit([this](auto const& m) { on(m); }, wire::decode_control(f->body));
        heard = true;
      }
    }
    FUZZ_REQUIRE(!end_.has_ended());
  }

 private:
  static wire::frame_header own_header(std::uint8_t kind) {
    wire::frame_header h;
    h.kind = kind;
    return h;
  }

  void say(wire::control_message const& m) {
    wire::frame_header h = own_header(+wire::kind::control);
    h.sequence = ++said_;
    end_.send(encoded({.header = h, .meta = {}, .body = wire::encode(m)}));
  }
  void order(membership_order const& o) {
    member& m = members_.at(o.worker.index());
    if (o.what == membership_order::kind::start) m.clock = o.clock.value();
    say(wire::server_order{o, m.process});
    follow_cuts();
  }
  void follow_cuts() {
    if (!synchronized_) return;
    (void)orders_.cuts().take_released();
    shared_cut const mark = orders_.cuts().take_mark();
    if (!mark) return;
    wire::cut_mark m{.stage = stage_, .c_min = mark->c_min(), .below = {}};
    for (std::uint32_t i = 0; i < mark->size(); ++i) m.below.push_back(mark->of(worker_id{i}));
    say(m);
  }

  void on(wire::registration const&) {}
  void on(wire::order_done const& m) {
    if (!m.report) return;
    if (auto const next = orders_.report(m.order, *m.report)) order(*next);
  }
  void on(wire::progress_note const& m) {
    if (m.stage != stage_) return;
    orders_.cuts().report(server_id{0}, m.worker, m.received);
    follow_cuts();
  }
  void on(wire::stage_over const& m) { is_stage_over_ = is_stage_over_ || m.stage == stage_; }
  template <class Other>
  void on(Other const&) {
    throw wire::frame_error("a server says what is not for the coordinator");
  }

  bool synchronized_;
  std::function<void()> const& pump_;
  wire_end end_;
  coordinator orders_;
  std::uint64_t said_ = 0;
  stage_id stage_{};
  std::vector<member> members_;
  std::map<std::uint32_t, std::uint32_t> next_life_;  ///< by process: the first that the server has not heard of
  bool is_stage_over_ = false;
};

}  // namespace rubato::fuzz
