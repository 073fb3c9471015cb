// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <rubato/wire/control.hpp>
#include <rubato/wire/messages.hpp>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "seeds.hpp"

using namespace rubato;
using namespace rubato::wire;

namespace {

using bytes = std::vector<std::byte>;

constexpr stage_id stage{7};
constexpr sender somebody{worker_id{3}, incarnation_id{2}, stage};
constexpr membership_order some_order{membership_order::kind::drop,
                                      worker_id{5},
                                      incarnation_id{1},
                                      clock_index{-9},
                                      epoch_id{77},
                                      stage,
                                      version_index{4}};

worker_metrics some_metrics() {
  worker_metrics m;
  m.compute = duration(11);
  m.wait = duration(-2);
  m.steps = 1234567890123;
  m.requests = 6;
  m.process_hits = 7;
  m.bytes_received = 5;
  m.staleness.front() = 8;
  m.staleness.back() = 9;
  return m;
}

peer_metrics some_peer_metrics() {
  peer_metrics m;
  m.iterations = 1;
  m.jumps = 2;
  m.jumped_over = 3;
  m.updates_sent = 4;
  m.updates_spared = 5;
  m.updates_reduced = 6;
  m.updates_late = 7;
  m.queue_peak = 8;
  m.compute = duration(9);
  m.wait_updates = duration(10);
  m.wait_tokens = duration(11);
  m.bytes_sent = 12;
  return m;
}

/// One of each kind at least, every field with a value of its own.
std::vector<control_message> samples() {
  shard_counters const counters{1, 2, 3, 4};
  return {
      registration{role::server, 4U, "127.0.0.1:4711", "protocol ssp(3)", 99, {1, 2, 3}, 7, 60000},
      registration{role::coordinator, std::nullopt, "", std::string(300, '\0'), 0, {}},
      welcome{1, 2, 3, true, {"unix:/a", "", "[::1]:2"}, {1, 2, 255}},
      ready{4096, true, 3, true, 9, 12},
      add_worker{stage_id{3}},
      worker_ended{stage, worker_id{1}, clock_index::highest(), some_metrics()},
      end_run{stage, true, errc::bad_frame, "a body threw"},
      pace_note{stage, {worker_id{1}, clock_index{6}, 0.5}},
      pace_note{stage, {worker_id{1}, clock_index{6}, std::nullopt}},
      loss_sample{stage, time_point(duration(-4)), 1e300},
      cut_request{somebody, clock_index{12}, staleness::infinite(), true},
      cut_release{somebody},
      farewell{},
      farewell{"server 1 was lost"},
      order_done{some_order, membership_report{clock_index{3}, version_index{9}}},
      order_done{some_order, std::nullopt},
      stage_over{stage, counters, 31},
      progress_note{stage, worker_id{2}, clock_index{8}},
      tables_wanted{stage, "127.0.0.1:4711", 17},
      send_tables{stage, "127.0.0.1:4711", 17},
      begin_stage{stage, 2, true, recovery::restore},
      run_begins{stage, 3, 1, {worker_id{0}, worker_id{9}}, time_point(duration(5)), true},
      worker_starts{stage, worker_id{1}, {clock_index{2}, version_index{3}}},
      server_order{some_order, 8},
      end_stage{stage},
      run_over{stage,
               duration(6),
               5,
               {some_metrics(), {}},
               counters,
               3,
               2,
               {time_point(duration(1))},
               {-1},
               {"slower"},
               {1, 4}},
      stop_run{stage, true, false, errc::lost, "server 1 was lost"},
      admission{3, 4, {5, 0, 255}},
      expel{3, 4},
      pace_command{stage, worker_id{1}, {std::byte{0}, std::byte{255}}},
      sample_loss{stage},
      cut_grant{somebody, duration(9), clock_index{2}, {clock_index{3}, clock_index::lowest()}},
      cut_mark{stage, clock_index{2}, {}},
      shut_down{},
      shut_down{"server 1 was lost"},
      come_again{},
      peer_ended{stage},
      peer_settled{stage, some_peer_metrics()},
      peer_measured{stage, 0.125},
      peers_begin{stage, {{1, 2, "unix:/peer", {7, 8}}, {3, 0, "", {}}}, {{2, "peer 2 has left"}}},
      peer_lost{stage, 3, "peer 3 was lost"},
      settle{stage},
      send_share{stage},
      peers_over{stage, duration(6), 2, {some_peer_metrics(), {}}, 0.5},
  };
}

/// What decoding comes to; anything but a frame_error passes through, and fails the test.
bool is_refused(std::span<std::byte const> of) {
  try {
    (void)decode_control(of);
    return false;
  } catch (frame_error const&) {
    return true;
  }
}

/// The bytes of a message with one of them replaced.
bytes with(control_message const& m, std::size_t at, int value) {
  bytes b = encode(m);
  b.at(at) = std::byte(value);
  return b;
}

}  // namespace

TEST_CASE("control messages: every kind comes out as it went in") {
  std::set<std::size_t> seen;
  for (control_message const& m : samples()) {
    INFO("message of kind " << m.index());
    bytes const b = encode(m);
    control_message const back = decode_control(b);
    CHECK(back.index() == m.index());
    CHECK(encode(back) == b);
    seen.insert(m.index());
  }
  CHECK(seen.size() == std::variant_size_v<control_message>);
}

TEST_CASE("control messages: fields keep their values and their places") {
  auto const s =
      std::get<stop_run>(decode_control(encode(stop_run{stage, true, false, errc::lost, "why"})));
  CHECK(s.stage == stage);
  CHECK(s.fatal);
  CHECK_FALSE(s.failed);
  CHECK(s.code == errc::lost);
  CHECK(s.sentence == "why");
  auto const o = std::get<order_done>(decode_control(
      encode(order_done{some_order, membership_report{clock_index{3}, version_index{9}}})));
  CHECK(o.order.what == membership_order::kind::drop);
  CHECK(o.order.epoch == epoch_id{77});
  CHECK(o.order.clock == clock_index{-9});
  CHECK(o.report == membership_report{clock_index{3}, version_index{9}});
  auto const c = std::get<cut_grant>(
      decode_control(encode(cut_grant{somebody, duration(9), clock_index{2}, {clock_index{3}}})));
  CHECK(c.to.worker == somebody.worker);
  CHECK(c.to.incarnation == somebody.incarnation);
  CHECK(c.held == duration(9));
  CHECK(c.below == std::vector{clock_index{3}});
  auto const w = std::get<worker_ended>(
      decode_control(encode(worker_ended{stage, worker_id{1}, clock_index{4}, some_metrics()})));
  CHECK(w.metrics.wait == duration(-2));
  CHECK(w.metrics.steps == 1234567890123);
  CHECK(w.metrics.requests == 6);
  CHECK(w.metrics.process_hits == 7);
  CHECK(w.metrics.staleness == some_metrics().staleness);
  auto const b = std::get<begin_stage>(decode_control(encode(begin_stage{stage, 2, false, recovery::keep})));
  CHECK(b.recover == recovery::keep);
  auto const r = std::get<ready>(
      decode_control(encode(ready{.step = 3, .workers = 4, .recover = recovery::restore, .keeper = 7U})));
  CHECK(r.keeper == 7U);
  CHECK(r.step == 3);
  CHECK(r.recover == recovery::restore);
  run_over over;
  over.lost_nodes = {1, 4};
  over.completed = completion::not_begun;
  auto const o_back = std::get<run_over>(decode_control(encode(over)));
  CHECK(o_back.lost_nodes == std::vector<std::uint32_t>{1, 4});
  CHECK(o_back.completed == completion::not_begun);
}

TEST_CASE("control messages: sentences come out printable and short, whoever wrote them") {
  std::string const said = "a\n\x1b[2J" + std::string(100'000, 'x');
  auto const heard = [](wire::control_message const& m) { return wire::decode_control(wire::encode(m)); };
  wire::end_run end{};
  end.sentence = said;
  wire::stop_run stop{};
  stop.sentence = said;
  wire::run_over over{};
  over.change_reasons = {said};
  for (std::string const& text :
       {std::get<wire::end_run>(heard(end)).sentence, std::get<wire::stop_run>(heard(stop)).sentence,
        std::get<wire::farewell>(heard(wire::farewell{said})).failure,
        std::get<wire::shut_down>(heard(wire::shut_down{said})).failure,
        std::get<wire::peer_lost>(heard(wire::peer_lost{{}, 0, said})).sentence,
        std::get<wire::peers_begin>(heard(wire::peers_begin{{}, {}, {{0, said}}})).absent.at(0).sentence,
        std::get<wire::run_over>(heard(over)).change_reasons.at(0)}) {
    CHECK(text.starts_with("a\\n\\x1b[2Jxxx"));
    CHECK(text.size() < 1100);
  }
}

TEST_CASE("control messages: cut short anywhere, or longer by a byte, they are frame errors") {
  for (control_message const& m : samples()) {
    INFO("message of kind " << m.index());
    bytes b = encode(m);
    for (std::size_t size = 0; size < b.size(); ++size) {
      INFO("the first " << size << " of " << b.size() << " bytes");
      CHECK(is_refused(std::span(b).first(size)));
    }
    b.push_back(std::byte{0});
    CHECK(is_refused(b));
  }
}

TEST_CASE("control messages: choices and truth values that do not exist are frame errors") {
  auto const kind = static_cast<int>(std::variant_size_v<control_message>);
  CHECK(is_refused(bytes{std::byte(kind)}));
  CHECK(is_refused(bytes{std::byte{255}}));
  registration const r{role::worker, std::nullopt, "", "", 1};
  CHECK_FALSE(is_refused(with(r, 1, 2)));
  CHECK(is_refused(with(r, 1, 3)));  // the role
  CHECK(is_refused(with(r, 2, 2)));  // whether there is a rank
  server_order const o{some_order, 1};
  CHECK_FALSE(is_refused(with(o, 1, 0)));
  CHECK(is_refused(with(o, 1, 4)));  // what is ordered
  end_run const e{stage, false, errc::lost, ""};
  std::size_t const code = 1 + sizeof(stage_id) + 1;
  CHECK_FALSE(is_refused(with(e, code - 1, 1)));
  CHECK(is_refused(with(e, code - 1, 2)));  // whether it failed
  CHECK_FALSE(is_refused(with(e, code, static_cast<int>(errc::bad_frame))));
  CHECK(is_refused(with(e, code, static_cast<int>(errc::bad_frame) + 1)));
  CHECK(is_refused(with(e, code + 3, 0x80)));  // a negative one
  bytes begin = encode(begin_stage{stage, 0, false, recovery::restore});
  begin.at(begin.size() - 1) = std::byte{3};
  CHECK(is_refused(begin));
}

TEST_CASE("meta of requests and refusals: choices that do not exist are frame errors") {
  refused_meta const refused{stage, refusal::cut};
  CHECK(from_bytes<refused_meta>(to_bytes(refused)).reason == refusal::cut);
  bytes b = to_bytes(refused_meta{stage, static_cast<refusal>(static_cast<int>(refusal::cut) + 1)});
  CHECK_THROWS_AS(from_bytes<refused_meta>(b), frame_error);
  request_meta asked;
  asked.asked = selection::all;
  CHECK(from_bytes<request_meta>(to_bytes(asked)).asked == selection::all);
  asked.asked = static_cast<selection>(3);
  CHECK_THROWS_AS(from_bytes<request_meta>(to_bytes(asked)), frame_error);
  asked.asked = selection::all;
  b = to_bytes(asked);
  std::size_t const bound = sizeof(stage_id) + sizeof(std::int64_t);
  b.at(bound + 7) = std::byte{0x80};  // a staleness below 0
  CHECK_THROWS_AS(from_bytes<request_meta>(b), frame_error);
}

TEST_CASE("control messages: a size beyond what is there is refused before memory is taken") {
  // Elements take a byte each at least, so nothing is larger than the bytes that arrived times the
  // size of an element in memory.
  cut_mark const m{stage, clock_index{2}, {}};
  bytes b = encode(m);
  std::fill(b.end() - 4, b.end(), std::byte{255});
  CHECK(is_refused(b));
  registration const r{role::worker, std::nullopt, "", "", 1};
  b = encode(r);
  std::fill(b.begin() + 3, b.begin() + 7, std::byte{255});  // the length of a text
  CHECK(is_refused(b));
}

TEST_CASE("control messages: damaged bytes are a message, or a frame error, and nothing else") {
  std::vector<bytes> all;
  for (control_message const& m : samples()) all.push_back(encode(m));
  for (std::uint64_t i = 0; i < test::seed_count(100); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    std::mt19937_64 random(seed);
    std::size_t refused = 0;
    for (int k = 0; k < 200; ++k) {
      bytes b;
      if (random() % 4 == 0) {
        b.resize(random() % 200);
        for (std::byte& x : b) x = std::byte(random() & 0xFF);
        if (!b.empty()) b.front() = std::byte(random() % std::variant_size_v<control_message>);
      } else {
        b = all[random() % all.size()];
        for (auto flips = 1 + random() % 4; flips > 0; --flips)
          b[random() % b.size()] ^= std::byte(1U << (random() % 8));
      }
      refused += is_refused(b) ? 1 : 0;
    }
    CHECK(refused > 0);
  }
}
