// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// The coordinator's part of a run alone: a test says what the others say, and reads what they are
// told.
#pragma once

#include <rubato/transport/processes/process_control.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/wire/control.hpp>

namespace rubato::test::control {

using kind = membership_order::kind;
using list = std::vector<std::string>;
using place = process_control::place;

constexpr place nth_worker(std::uint32_t n) { return {net::role::worker, n}; }
constexpr place nth_server(std::uint32_t n) { return {net::role::server, n}; }
constexpr clock_index at(std::int64_t c) { return clock_index{c}; }

inline std::string number(std::uint64_t n) { return std::to_string(n); }
inline std::string text(wire::welcome const& m) {
  return "welcome " + number(m.process) + "." + number(m.incarnation) + " to " +
         number(m.servers.size()) + (m.sends_initial_values ? ", initial values" : "");
}
inline std::string text(wire::begin_stage const& m) {
  std::string said = "stage " + number(m.stage.value());
  if (m.protocol != 0) said += " under " + number(m.protocol);
  if (m.changes_tables) said += " changes tables";
  return said;
}
inline std::string text(wire::run_begins const& m) {
  std::string s = "begins " + number(m.stage.value()) + " of " + number(m.count) + ":";
  for (worker_id const w : m.workers) s += " " + number(w.value());
  return s;
}
inline std::string text(wire::worker_starts const& m) {
  return "starts " + number(m.worker.value()) + " at " + std::to_string(m.at.clock.value());
}
inline std::string text(wire::server_order const& m) {
  constexpr char const* names[] = {"enlist ", "start ", "freeze ", "drop "};
  std::string s = names[static_cast<int>(m.order.what)] + number(m.order.worker.value()) + "." +
                  number(m.order.incarnation.value());
  if (m.order.what == kind::start || m.order.what == kind::drop)
    s += " at " + std::to_string(m.order.clock.value());
  return s;
}
inline std::string text(wire::end_stage const& m) { return "end " + number(m.stage.value()); }
inline std::string text(wire::run_over const& m) {
  if (m.completed == completion::not_begun) return m.stopped ? "stopped before" : "not begun";
  return "over " + number(m.stage.value()) + (m.crashes > 0 ? " crashes " + number(m.crashes) : "") +
         (m.completed == completion::cut_off ? ", cut off" : "") + (m.stopped ? ", stopped" : "");
}
inline std::string text(wire::stop_run const& m) {
  return std::string(m.fatal ? "fatal: " : m.failed ? "failed: " : "stop: ") + m.sentence;
}
inline std::string text(wire::admission const& m) {
  return "admit " + number(m.process) + "." + number(m.incarnation);
}
inline std::string text(wire::expel const& m) {
  return "expel " + number(m.process) + "." + number(m.incarnation) + (m.forgets_values ? ", and its values" : "");
}
inline std::string text(wire::sample_loss const&) { return "sample"; }
inline std::string text(wire::send_tables const& m) { return "send tables to " + m.address + " " + number(m.session); }
inline std::string text(wire::pace_command const& m) { return "pace " + number(m.to.value()); }
inline std::string text(wire::cut_grant const& m) {
  return "cut " + std::to_string(m.c_min.value());
}
inline std::string text(wire::cut_mark const& m) {
  return "mark " + std::to_string(m.c_min.value());
}
inline std::string text(wire::shut_down const& m) {
  return m.failure.empty() ? "shut down" : "shut down: " + m.failure;
}
template <class Other>
std::string text(Other const&) {
  return "something that is not from the coordinator";
}

/// How far things have come when a test begins.
enum class stand : std::uint8_t {
  empty,
  gathered,  ///< all servers and workers are here, and nobody is ready
  running,   ///< a run has begun, with one worker in each process, and all of them have started
};

/// A coordinator, what it said to whom, and the orders that servers have not answered.
struct bench {
  explicit bench(process_control::options const& o, rules const& protocol = asp{}, stand at = stand::empty)
      : control({&protocol, 1}, o), servers(o.servers) {
    if (at == stand::empty) return;
    for (std::uint32_t s = 0; s < o.servers; ++s) serve();
    for (std::uint32_t w = 0; w < o.workers; ++w) (void)come();
    if (at == stand::running) {
      for (std::uint32_t w = 0; w < o.workers; ++w) ready(w);
      carry_out_all();
    }
    forget();
  }
  bench(std::uint32_t n_servers, std::uint32_t n_workers, net::on_loss when = net::on_loss::end)
      : bench({.workers = n_workers, .servers = n_servers, .when_lost = when}) {}

  process_control control;
  std::uint32_t servers;
  time_point now{};
  std::map<place, list> heard;
  std::map<std::uint32_t, std::deque<membership_order>> orders;
  std::vector<std::uint32_t> lost_nodes;  ///< of the last run that is over

  void pump() {
    for (auto const& [to, message] : control.take()) {
      heard[to].push_back(std::visit([](auto const& m) { return text(m); }, message));
      if (auto const* o = std::get_if<wire::server_order>(&message))
        orders[to.number].push_back(o->order);
      if (auto const* over = std::get_if<wire::run_over>(&message)) lost_nodes = over->lost_nodes;
    }
  }
  list told(place to) {
    pump();
    return std::exchange(heard[to], {});
  }
  void forget() {
    pump();
    heard.clear();
  }
  std::uint32_t serve(std::string const& agreed = "") {
    return control.enroll({net::role::server, std::nullopt, "here", agreed, 1}, {}).at.number;
  }
  process_control::enrolment come(std::optional<std::uint32_t> rank = std::nullopt, std::string const& agreed = "") {
    return control.enroll({net::role::worker, rank, "", agreed, 1}, {});
  }
  void say(place from, wire::control_message const& m) { control.receive(from, m, now); }
  void ready(std::uint32_t process, std::uint32_t threads = 1) {
    say(nth_worker(process), wire::ready{threads, false, 0, false});
  }
  /// Server `s` carries out its oldest order.
  void carry_out(std::uint32_t s, std::int64_t clock = 0) {
    pump();
    membership_order const o = orders[s].front();
    orders[s].pop_front();
    std::optional<membership_report> report;
    if (o.what == kind::enlist || o.what == kind::freeze) report = membership_report{at(clock), {}};
    say(nth_server(s), wire::order_done{o, report});
    pump();
  }
  void carry_out_all() {
    pump();
    for (bool any = true; std::exchange(any, false);)
      for (std::uint32_t s = 0; s < servers; ++s)
        for (; !orders[s].empty(); any = true) carry_out(s);
  }
  void ended(std::uint32_t process, std::uint32_t w, std::int64_t clock = 0) {
    say(nth_worker(process), wire::worker_ended{control.stage(), worker_id{w}, at(clock), {}});
  }
  void finish(std::uint32_t s) { say(nth_server(s), wire::stage_over{control.stage(), {}, 0}); }
  void lose(place who, bool expected = false) { control.lose(who, "cut off", expected, now); }
};

inline bench gathered(std::uint32_t servers, std::uint32_t workers,
                      net::on_loss when = net::on_loss::end) {
  return bench({.workers = workers, .servers = servers, .when_lost = when}, asp{}, stand::gathered);
}
inline bench running(std::uint32_t servers, std::uint32_t workers,
                     net::on_loss when = net::on_loss::end) {
  return bench({.workers = workers, .servers = servers, .when_lost = when}, asp{}, stand::running);
}

template <class F>
std::string refusal_of(F f) {
  try {
    f();
  } catch (wire::frame_error const& e) {
    return "frame error: " + std::string(e.what());
  } catch (error const& e) {
    CHECK(e.code() == errc::refused);
    return e.what();
  }
  return "";
}

}  // namespace rubato::test::control
