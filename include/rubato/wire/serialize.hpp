// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/metrics/peer_report.hpp"
#include "rubato/metrics/run_report.hpp"
#include "rubato/server/messages.hpp"
#include "rubato/wire/archive.hpp"

/// What Boost.Serialization needs for classes of the engine that travel in control messages.
namespace rubato {

template <class Archive>
void serialize(Archive& ar, sender& s, unsigned) {
  ar & s.worker & s.incarnation & s.stage;
}
template <class Archive>
void serialize(Archive& ar, membership_order& o, unsigned) {
  ar & o.what & o.worker & o.incarnation & o.clock & o.epoch & o.stage & o.version;
}
template <class Archive>
void serialize(Archive& ar, membership_report& r, unsigned) {
  ar & r.clock & r.version;
}
template <class Archive>
void serialize(Archive& ar, starting_point& p, unsigned) {
  ar & p.clock & p.version;
}
template <class Archive>
void serialize(Archive& ar, pace_report& r, unsigned) {
  ar & r.from & r.clock & r.loss;
}
template <class Archive>
void serialize(Archive& ar, shard_counters& c, unsigned) {
  ar & c.commits & c.refused & c.dropped & c.partly_folded & c.rounds & c.late;
}
template <class Archive>
void serialize(Archive& ar, worker_metrics& m, unsigned) {
  ar & m.compute & m.send & m.wait & m.steps & m.commits & m.pulls & m.fetches & m.requests &
      m.process_hits & m.pushes & m.bytes_sent & m.bytes_received & m.staleness;
}
template <class Archive>
void serialize(Archive& ar, peer_metrics& m, unsigned) {
  ar & m.iterations & m.jumps & m.jumped_over & m.updates_sent & m.updates_spared & m.updates_reduced & m.updates_late &
      m.queue_peak & m.compute & m.wait_updates & m.wait_tokens & m.bytes_sent;
}

}  // namespace rubato
