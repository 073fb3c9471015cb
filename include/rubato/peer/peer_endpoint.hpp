// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <span>

#include "rubato/core/ids.hpp"
#include "rubato/core/time.hpp"
#include "rubato/peer/message.hpp"

namespace rubato {

/// A peer's end of a transport. One per peer, used by that peer only.
///
/// | function           | what it does |
/// |--------------------|--------------|
/// | `guard(f)`         | calls `f()` while nothing arrives at this peer; returns what it does |
/// | `post(to, message)`| sends; FIFO per pair of sender and receiver; does not wait for the receiver |
/// | `flush()`          | the peer goes on to compute: what it has posted is on its way, or else waits until it is |
/// | `wait()`           | returns when the node's `can_go_on()` holds, asked under the guard |
/// | `begin_exchange()`, `end_exchange()` | in between the peer computes for moments only, and waits again: nobody else need look after its messages. By `exchanging` |
/// | `is_near(to)`      | whether a message is with that peer at once, as far as is known: then little should be under way, since what waits grows cold; else much, which hides how long it takes |
/// | `now()`            | time since the run began |
/// | `charge(work)`     | the peer has computed `work` units since the last charge; a simulator makes time pass |
/// | `checkpoint()`     | throws when the run is being stopped; cheap |
/// | `can_sum()`        | whether there is `sum`, at all peers alike; else a node adds up by messages |
/// | `sum(mine)`        | waits for what all peers give, as many numbers each, and returns their sum, the same at all to the last bit; it stays until the next one. Nothing where a peer is lost, or has left, as the node has then been told |
///
/// `post`, `flush`, `wait`, `charge` and `sum` too throw when the run is being stopped; what they throw then is
/// `run_stopped`, which is no std::exception, so that bodies do not swallow it by accident.
class peer_endpoint {
 public:
  virtual ~peer_endpoint() = default;

  template <class F>
  decltype(auto) guard(F f) {
    struct held {
      peer_endpoint& e;
      explicit held(peer_endpoint& one) : e(one) { e.lock(); }
      ~held() { e.unlock(); }
    } const until_done(*this);
    return f();
  }
  virtual void post(worker_id to, peer_message&& m) = 0;
  virtual void flush() {}
  virtual void wait() = 0;
  virtual void begin_exchange() {}
  virtual void end_exchange() noexcept {}
  [[nodiscard]] virtual bool is_near(worker_id /*to*/) const noexcept { return false; }
  [[nodiscard]] virtual time_point now() const = 0;
  virtual void charge(double work) = 0;
  virtual void checkpoint() = 0;
  [[nodiscard]] virtual bool can_sum() const noexcept { return false; }
  [[nodiscard]] virtual std::span<std::byte const> sum(std::span<std::byte const> /*mine*/) { return {}; }

 private:
  virtual void lock() = 0;
  virtual void unlock() = 0;
};

/// Where a peer waited, since its run began.
struct peer_waits {
  duration for_updates{};  ///< for updates of neighbors
  duration for_tokens{};  ///< or acknowledgements
};

namespace detail {
/// An exchange, for as long as it lives.
struct exchanging {
  explicit exchanging(peer_endpoint& of) : e(of) { e.begin_exchange(); }
  exchanging(exchanging const&) = delete;
  exchanging& operator=(exchanging const&) = delete;
  ~exchanging() { e.end_exchange(); }
  peer_endpoint& e;
};
/// Adds the time until its end to `spent`.
struct waiting_time {
  waiting_time(peer_endpoint& of, duration& to) : e(of), spent(to), since(of.now()) {}
  waiting_time(waiting_time const&) = delete;
  waiting_time& operator=(waiting_time const&) = delete;
  ~waiting_time() { spent += e.now() - since; }
  peer_endpoint& e;
  duration& spent;
  time_point since;
};
/// Waits, and adds the time to `spent`, even if the run is stopped meanwhile.
inline void wait_counting(peer_endpoint& e, duration& spent) {
  waiting_time const until_it_returns(e, spent);
  e.wait();
}
}  // namespace detail

}  // namespace rubato
