// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "rubato/core/ids.hpp"
#include "rubato/core/time.hpp"
#include "rubato/peer/message.hpp"

namespace rubato {

/// A peer's end of a transport. One per peer, used by that peer only.
///
/// | expression           | meaning |
/// |----------------------|---------|
/// | `e.guard(f)`         | calls `f()` while nothing arrives at this peer; returns what it does |
/// | `e.post(to, message)`| sends; FIFO per pair of sender and receiver; does not wait for the receiver |
/// | `e.wait()`           | returns when the node's `can_go_on()` holds, asked under the guard |
/// | `e.now()`            | time since the run began |
/// | `e.charge(work)`     | the peer has computed `work` units since the last charge; a simulator makes time pass |
/// | `e.checkpoint()`     | throws when the run is being stopped; cheap |
///
/// `post`, `wait` and `charge` too throw when the run is being stopped; what they throw then is no
/// std::exception, so that bodies do not swallow it by accident.
/// Models: the endpoints of `in_process` and `simulated`.
template <class E, class Message>
concept peer_endpoint = requires(E e, worker_id to, Message m, double work) {
  { e.guard([] { return 1; }) } -> std::same_as<int>;
  e.post(to, std::move(m));
  e.wait();
  { e.now() } -> std::same_as<time_point>;
  e.charge(work);
  e.checkpoint();
};

/// Where a peer waited, since its run began.
struct peer_waits {
  duration for_updates{};
  duration for_tokens{};  ///< or acknowledgements
};

namespace detail {
/// Waits, and adds the time to `spent`, even if the run is stopped meanwhile.
template <class Endpoint>
void wait_counting(Endpoint& e, duration& spent) {
  struct stopwatch {
    Endpoint& e;
    duration& spent;
    time_point since;
    ~stopwatch() { spent += e.now() - since; }
  } const until_it_returns{e, spent, e.now()};
  e.wait();
}
}  // namespace detail

/// What a decentralized protocol does for one peer: the machine, and the arithmetic on parameters.
///
/// Called by the transport, under the guard:
///
/// | expression                        | meaning |
/// |-----------------------------------|---------|
/// | `n.deliver(from, message, out)`   | takes a message; answers go to `out`; false for one that no correct peer sends |
/// | `n.lose(worker)`                  | that peer has died |
/// | `n.leave(out)`                    | the body has ended; if too early, neighbors have to know |
/// | `n.can_go_on()`                   | what it waits for is there |
/// | `n.share()`                       | its parameters as they are now |
///
/// Called by the peer itself, with its endpoint:
///
/// | expression                    | meaning |
/// |-------------------------------|---------|
/// | `n.reset()`                   | before a run: as if none had been, but for the parameters |
/// | `n.begin(e, iterations)`      | enters iteration 0, or ends |
/// | `n.step(e, gradient)`         | ends an iteration and enters the next, or ends |
/// | `n.parameters()`              | what the gradient is to be computed at; unchanged until `step` |
/// | `n.iteration()`, `n.ended()`, `n.counters()`, `n.waits()` | |
///
/// `N::bytes(message)` is what a message carries, without framing.
/// Models: `hop_node`, `ad_psgd_node`, `all_reduce_node`.
template <class N, class E>
concept peer_node =
    requires(N n, N const c, typename N::message m, E e, worker_id w, std::int64_t iterations,
             outbox<typename N::message> out, std::span<typename N::value_type const> gradient) {
      { n.deliver(w, std::move(m), out) } -> std::same_as<bool>;
      n.lose(w);
      n.leave(out);
      { c.can_go_on() } -> std::same_as<bool>;
      c.share();
      n.reset();
      n.begin(e, iterations);
      n.step(e, gradient);
      { c.parameters() } -> std::same_as<std::span<typename N::value_type const>>;
      { c.iteration() } -> std::same_as<std::int64_t>;
      { c.ended() } -> std::same_as<bool>;
      c.counters();
      { c.waits() } -> std::same_as<peer_waits>;
      { N::bytes(m) } -> std::same_as<std::uint64_t>;
    };

}  // namespace rubato
