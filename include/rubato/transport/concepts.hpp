// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <utility>

#include "rubato/core/ids.hpp"
#include "rubato/core/table.hpp"
#include "rubato/core/time.hpp"
#include "rubato/server/messages.hpp"
#include "rubato/server/read_slot.hpp"

namespace rubato {

/// A worker's end of a transport. One per worker, used by that worker only.
///
/// | expression                         | meaning |
/// |------------------------------------|---------|
/// | `e.post(server, commit)`           | sends; FIFO per pair of worker and server, later requests included; may block while the link is busy |
/// | `e.request(server, tag, read, slot)` | asks for admission and for what the slot says; may complete before it returns; the slot stays in use until `wait` returns, before which time may pass |
/// | `e.wait()`                         | returns when all requests since the last one are complete; each slot then holds its answer, `arrived` and `admitted` |
/// | `e.now()`                          | time since the run began |
/// | `e.charge(work)`                   | the worker has computed `work` units since the last charge; a simulator makes time pass |
/// | `e.pause(until)`                   | lets the time pass until then |
/// | `e.checkpoint()`                   | throws when the run is being stopped; cheap |
///
/// Where reads are synchronized, also:
///
/// | `e.request_cut(read, slot)`        | asks the coordinator to be let in, and for a cut; like `request`, complete when `wait` returns |
/// | `e.release_cut(worker)`            | the answers that go with the cut are in |
///
/// Where the pace has a conductor, also:
///
/// | `e.report_commit(clock)`           | tells the conductor, one way, that this worker is at that clock now |
/// | `e.report_loss(loss)`              | and what a loss came to |
/// | `e.take_order()`                   | the next of the conductor's orders that have arrived; nothing when there is none |
///
/// Optional:
///
/// | `e.scatters()`                     | whether it writes whole dense tables where the slot's `scattered` says |
/// | `e.start()`                        | sends what has been requested, for whoever will not wait soon |
/// | `e.shares_reads()`                 | whether answers may lack the worker's last commits, since others asked for them |
///
/// `post`, `request` and `wait` too throw when the run is being stopped; what they throw then is no
/// std::exception, so that bodies do not swallow it by accident.
/// Models: the endpoints of `in_process`, `simulated` and `tcp`.
template <class E, class System>
concept endpoint = requires(E e, server_id s, typename System::message m, read_header read,
                            read_slot<typename System::template store_type<0>>& slot, double work,
                            cut_slot& cut, worker_id self, time_point until, clock_index clock) {
  e.post(s, std::move(m));
  e.request(s, table<0>, read, slot);
  e.wait();
  { e.now() } -> std::same_as<time_point>;
  e.charge(work);
  e.pause(until);
  e.checkpoint();
  requires !System::synchronized || requires {
    e.request_cut(read, cut);
    e.release_cut(self);
  };
  requires !System::conducted || requires {
    e.report_commit(clock);
    e.report_loss(work);
    { e.take_order() } -> std::same_as<std::optional<typename System::pace_order>>;
  };
};

/// One to which a copy would cost more than it saves: see `read_slot::scattered`.
template <class E>
concept scattering_endpoint = requires(E const& e) {
  { e.scatters() } -> std::convertible_to<bool>;
};

template <class E>
concept prefetching_endpoint = requires(E& e) { e.start(); };
template <class E>
concept sharing_endpoint = requires(E const& e) {
  { e.shares_reads() } -> std::convertible_to<bool>;
};

}  // namespace rubato
