// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/core/time.hpp"
#include "rubato/protocol/concepts.hpp"

namespace rubato {

/// What a conductor decided, for reports.
struct pace_change {
  time_point at;  ///< when it was decided
  std::int64_t value;  ///< ADSP: commits per check period; ADACOMM: local steps per commit
  std::string reason;  ///< in a word or two

  friend bool operator==(pace_change const&, pace_change const&) = default;
};

/// A conductor's order, and the worker whose pace is to follow it.
template <class Order>
struct addressed {
  worker_id to;  ///< the worker whose pace follows it
  Order order;  ///< what it is to do
};
/// Orders that go out together.
template <class Order>
using pace_orders = std::vector<addressed<Order>>;

/// A pace's half in the coordinator, which sees all workers and the loss. A state machine without
/// I/O and clock: events and the time come in, orders for the halves at the workers go out.
///
/// | expression              | meaning |
/// |-------------------------|---------|
/// | `c.join(w, clock, t, out)` | a worker starts at this clock; called in a run's beginning too |
/// | `c.leave(w)`            | it has left, or is lost |
/// | `c.commit(w, clock, t)` | it has committed, and is at this clock now; unknown workers are ignored |
/// | `c.observe(t, loss)`    | the loss was this at that time; what is not finite is ignored |
/// | `c.tick(t, out)`        | `next_tick()` has come |
/// | `c.next_tick()`         | `time_point`: when it wants to be called; moves on in `tick` only |
/// | `c.next_sample()`       | `time_point`: when it wants to know the loss, `max()` for never; moves on in `observe` and `tick` only |
/// | `c.changes()`           | `std::span<pace_change const>`: what it decided, oldest first |
///
/// `join` and `tick` append orders to `out`. Times never fall from call to call, but for those of
/// `observe`, which may lag; `tick` may come late. One conductor serves one run. Called by one thread at a time.
/// Models: `rate_conductor`, `period_conductor`. Source: 003 Fig. 2, "scheduler".
template <class C>
concept pace_conductor =
    std::move_constructible<C> &&
    requires(C c, C const k, worker_id w, clock_index clock, time_point t, double loss,
             pace_orders<typename C::order_type>& out) {
      requires std::is_trivially_copyable_v<typename C::order_type>;
      c.join(w, clock, t, out);
      c.leave(w);
      c.commit(w, clock, t);
      c.observe(t, loss);
      c.tick(t, out);
      { k.next_tick() } noexcept -> std::same_as<time_point>;
      { k.next_sample() } noexcept -> std::same_as<time_point>;
      { k.changes() } noexcept -> std::same_as<std::span<pace_change const>>;
    };

/// A pace with a conductor. Beyond what every pace says:
///
/// | expression            | meaning |
/// |-----------------------|---------|
/// | `p.make_conductor()`  | the coordinator's half for one run; throws option_error for what cannot be meant |
/// | `p.follow(order, point)` | an order has arrived while the worker stood at `point`; `due` is asked again. Orders are looked at when a local step ends; they do not cut a pause short |
/// | `p.spent(d)`          | the last commit and the pulls up to the next step took `d`; `due` is asked again |
///
/// Models: `commit_rate`, `adaptive_period`.
template <class P>
concept conducted_pace =
    pace_policy<P> && requires(P p, P const k, pace_point at, duration d) {
      { k.make_conductor() } -> pace_conductor;
      p.follow(typename decltype(k.make_conductor())::order_type{}, at);
      p.spent(d);
    };

/// A conductor of whatever type, for one run; see `pace_conductor`. Orders are bytes.
class conductor {
 public:
  /// An order, as it lies in memory: both ends run the same program or are checked to agree.
  using order = std::vector<std::byte>;
  /// Orders that go out together.
  using orders = std::vector<addressed<order>>;

  virtual ~conductor() = default;
  virtual void join(worker_id w, clock_index at, time_point now, orders& out) = 0;
  virtual void leave(worker_id w) = 0;
  virtual void commit(worker_id w, clock_index at, time_point now) = 0;
  virtual void observe(time_point at, double loss) = 0;
  virtual void tick(time_point now, orders& out) = 0;
  [[nodiscard]] virtual time_point next_tick() const = 0;
  [[nodiscard]] virtual time_point next_sample() const = 0;
  [[nodiscard]] virtual std::span<pace_change const> changes() const = 0;
};

}  // namespace rubato
