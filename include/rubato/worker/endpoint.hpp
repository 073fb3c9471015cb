// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <optional>

#include "rubato/core/clock.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/core/time.hpp"
#include "rubato/protocol/conductor.hpp"

namespace rubato {

struct commit_message;
struct cut_slot;
struct read_header;
struct read_slot;

/// A worker's end of a transport. One per worker, used by that worker's thread or fiber only.
///
/// | function                            | what it does |
/// |-------------------------------------|--------------|
/// | `post(server, commit)`              | sends; FIFO per pair of worker and server, later requests included; may block while the link is busy |
/// | `request(server, table, read, slot)`| asks for admission and for what the slot says; may complete before it returns; the slot stays in use until `wait` returns, before which time may pass. Requests for several tables may be made before a `wait`, all of one clock, staleness and cut: while one of them waits at a server, those that follow wait there with it, and go on when it does |
/// | `wait()`                            | returns when all requests since the last one are complete; each slot then holds its answer, `arrived` and `admitted` |
/// | `now()`                             | time since the run began |
/// | `charge(work)`                      | the worker has computed `work` units since the last charge; a simulator makes time pass |
/// | `pause(until)`                      | lets the time pass until then |
/// | `checkpoint()`                      | throws when the run is being stopped; cheap |
///
/// Where reads are synchronized, also:
///
/// | function                            | what it does |
/// |-------------------------------------|--------------|
/// | `request_cut(read, slot)`           | asks the coordinator to be let in, and for a cut; like `request`, complete when `wait` returns |
/// | `release_cut()`                     | the answers that go with the cut are in |
///
/// Where the pace has a conductor, also:
///
/// | function                            | what it does |
/// |-------------------------------------|--------------|
/// | `report_commit(clock)`              | tells the conductor, one way, that this worker is at that clock now |
/// | `report_loss(loss)`                 | and what a loss came to |
/// | `take_order()`                      | the next of the conductor's orders that have arrived; nothing when there is none |
///
/// What differs from transport to transport, and is as here unless it says otherwise:
///
/// | function                            | what it does |
/// |-------------------------------------|--------------|
/// | `scatters()`                        | whether it writes whole bounded tables where the slot's `scattered` says: where a copy would cost more than it saves |
/// | `start()`                           | sends what has been requested, for whoever will not wait soon |
/// | `shares_reads()`                    | whether answers may lack the worker's last commits, since others asked for them |
///
/// `post`, `request` and `wait` too throw when the run is being stopped; what they throw then is
/// `run_stopped`, which is no std::exception, so that bodies do not swallow it by accident.
class endpoint {
 public:
  virtual ~endpoint() = default;

  virtual void post(server_id to, commit_message&& commit) = 0;
  virtual void request(server_id to, std::size_t table, read_header const& read, read_slot& slot) = 0;
  virtual void wait() = 0;
  [[nodiscard]] virtual time_point now() const = 0;
  virtual void charge(double work) = 0;
  virtual void pause(time_point until) = 0;
  virtual void checkpoint() = 0;

  virtual void request_cut(read_header const& read, cut_slot& slot) = 0;
  virtual void release_cut() = 0;

  virtual void report_commit(clock_index now_at) = 0;
  virtual void report_loss(double loss) = 0;
  [[nodiscard]] virtual std::optional<conductor::order> take_order() = 0;

  [[nodiscard]] virtual bool scatters() const noexcept { return false; }
  virtual void start() {}
  [[nodiscard]] virtual bool shares_reads() const noexcept { return false; }
};

/// An endpoint that does what another one does: derive from it, and override what is to be different. See
/// `decorated` in `transport/concepts.hpp`.
class endpoint_decorator : public endpoint {
 public:
  explicit endpoint_decorator(endpoint& inner) noexcept : inner_(inner) {}

  void post(server_id to, commit_message&& commit) override;
  void request(server_id to, std::size_t table, read_header const& read, read_slot& slot) override {
    inner_.request(to, table, read, slot);
  }
  void wait() override { inner_.wait(); }
  [[nodiscard]] time_point now() const override { return inner_.now(); }
  void charge(double work) override { inner_.charge(work); }
  void pause(time_point until) override { inner_.pause(until); }
  void checkpoint() override { inner_.checkpoint(); }
  void request_cut(read_header const& read, cut_slot& slot) override { inner_.request_cut(read, slot); }
  void release_cut() override { inner_.release_cut(); }
  void report_commit(clock_index now_at) override { inner_.report_commit(now_at); }
  void report_loss(double loss) override { inner_.report_loss(loss); }
  [[nodiscard]] std::optional<conductor::order> take_order() override { return inner_.take_order(); }
  [[nodiscard]] bool scatters() const noexcept override { return inner_.scatters(); }
  void start() override { inner_.start(); }
  [[nodiscard]] bool shares_reads() const noexcept override { return inner_.shares_reads(); }

 protected:
  /// The one that it stands before.
  [[nodiscard]] endpoint& inner() const noexcept { return inner_; }

 private:
  endpoint& inner_;
};

}  // namespace rubato
