// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// What a codec has written, as it comes from strangers.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/core/error.hpp>
#include <rubato/core/optional_mutex.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/server/blueprint.hpp>
#include <rubato/server/shard.hpp>
#include <rubato/storage/bfloat16.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/int8_blocks.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/transport/processes/inbound_frames.hpp>
#include <rubato/transport/processes/read_question.hpp>
#include <rubato/worker/inquiry.hpp>

#include "transport/processes/serving.hpp"

using namespace rubato;
using namespace rubato::detail;

namespace {

using room_list = std::vector<std::span<std::byte>>;
constexpr stage_id coded_stage{1};
constexpr std::uint64_t sparse_most = 1 << 20;

std::size_t size_of_all(room_list const& room) {
  std::size_t all = 0;
  for (auto const one : room) all += one.size();
  return all;
}

/// A server of a dense and a sparse table, and what comes to it of its one worker.
struct coded_server {
  coded_server()
      : plan(asp{}, 1,
             {describe(dense<float, sum>{.rows = 40, .codec = {.updates = int8_blocks{}, .answers = bfloat16{}}}),
              describe(sparse<float, sum>{.codec = {.updates = bfloat16{}, .answers = bfloat16{}}})}),
        server(plan, server_id{0}, threading::single),
        at(plan, server_id{0}, sparse_most) {
    server.begin_stage(coded_stage);
    std::vector<worker_id> released;
    std::uint64_t number = 0;
    for (auto const what : {membership_order::kind::enlist, membership_order::kind::start})
      server.order({.what = what, .worker = {}, .incarnation = {}, .epoch = epoch_id{++number}, .stage = coded_stage},
                   released);
  }

  /// Says that a commit of these parts comes, with a body of so many bytes.
  room_list begin(std::vector<wire::part_size> parts, std::uint64_t length) {
    wire::frame_header h;
    h.kind = +wire::kind::commit;
    h.sequence = ++sequence_;
    h.length = length;
    room_list room;
    at.begin_commit(h, wire::to_bytes(wire::commit_meta{.stage = coded_stage, .parts = std::move(parts)}), server, true,
                    room);
    return room;
  }

  blueprint plan;
  shard server;
  inbound_frames at;

 private:
  std::uint64_t sequence_ = 0;
};

}  // namespace

TEST_CASE("coded frames: an update is as long as its codec says, or takes no memory") {
  coded_server s;
  auto const refused = [&](wire::part_size dense_part, wire::part_size sparse_part, std::uint64_t length) {
    CHECK_THROWS_AS(s.begin({dense_part, sparse_part}, length), wire::frame_error);
    CHECK(s.at.room() == 0);
  };
  refused({true, 0, 41}, {}, 41);             // 40 values and two scales take 42
  refused({true, 0, 43}, {}, 43);
  refused({true, 0, 160}, {}, 160);           // uncoded
  refused({true, 0, 42}, {}, 41);             // not as long as it says
  refused({}, {false, 3, 12}, 36);            // uncoded
  refused({}, {false, 3, 5}, 29);
  refused({}, {false, std::uint64_t{1} << 61, std::uint64_t{1} << 62}, std::uint64_t{1} << 62);
  refused({}, {false, sparse_most / 12 + 1, 2 * (sparse_most / 12 + 1)}, 10 * (sparse_most / 12 + 1));
  CHECK(size_of_all(s.begin({{true, 0, 42}, {false, 3, 6}}, 42 + 30)) == 72);
}

TEST_CASE("coded frames: any bytes of the right number are some values") {
  coded_server s;
  room_list const room = s.begin({{true, 0, 42}, {false, 2, 4}}, 42 + 20);
  for (auto const one : room) std::ranges::fill(one, std::byte{0xFF});
  auto const rows = std::ranges::find(room, std::size_t{16}, &std::span<std::byte>::size);
  REQUIRE(rows != room.end());
  std::uint64_t const named[] = {5, 9};
  std::ranges::copy(std::as_bytes(std::span(named)), rows->begin());
  commit_message const m = s.at.take_commit(s.server);
  CHECK(m.parts[0]->values.as<float>().size() == 40);
  CHECK(m.parts[1]->values.as<float>().size() == 2);
  CHECK(m.parts[1]->rows == std::vector<std::uint64_t>{5, 9});
  CHECK(m.bytes() == 160 + 16 + 8);  // in memory, where it is held back
}

TEST_CASE("coded frames: an answer is as long as its codec says, and observers get all digits") {
  coded_server const s;
  for (std::size_t const table : {std::size_t{0}, std::size_t{1}}) {
    read_question q(s.plan, table, server_id{0}, sparse_most);
    read_slot slot;
    inquiry asked;
    auto const answered = [&](std::uint64_t rows, std::uint64_t length) {
      wire::frame_header h;
      h.kind = +wire::kind::reply;
      h.length = length;
      room_list room;
      q.begin(h, wire::to_bytes(wire::reply_meta{.asked = slot.asked, .rows = rows}), room);
      return size_of_all(room);
    };
    slot.asked = selection::all;
    q.renew({}, slot, asked);
    std::uint64_t const rows = table == 0 ? 0 : 3;
    std::uint64_t const coded = table == 0 ? 80 : 3 * 10, exact = table == 0 ? 160 : 3 * 12;
    CHECK_THROWS_AS(answered(rows, coded - 1), wire::frame_error);
    CHECK_THROWS_AS(answered(rows, exact), wire::frame_error);
    CHECK(answered(rows, coded) == coded);
    CHECK(slot.reply_bytes() == coded);
    if (table == 1) CHECK_THROWS(answered(std::uint64_t{1} << 60, std::uint64_t{10} << 60));
    slot.asked = selection::rows;
    slot.rows = {1, 2};
    q.renew({}, slot, asked);
    CHECK_THROWS_AS(answered(0, 8), wire::frame_error);
    CHECK(answered(0, 4) == 4);
    q.renew_observation(slot, asked);
    CHECK_THROWS_AS(answered(rows, coded), wire::frame_error);
    CHECK(answered(rows, exact) == exact);
    CHECK(slot.reply_bytes() == exact);
  }
}

TEST_CASE("tcp: a process whose table has another codec is refused, with the names of both", "[tcp]") {
  test::silence_in_log const quiet;
  dense<float> agreed{.rows = 10}, other{.rows = 10}, plain{.rows = 10};
  agreed.codec.updates = bfloat16{};
  other.codec.updates = int8_blocks{};
  net::deployment const shape{.workers = 1, .servers = 1};
  test::serving const run(shape, asp{}, {describe(agreed)});
  auto const complaint = [&](dense<float> const& table) -> std::string {
    try {
      cluster{run.process(0, 1), asp{}, table};
    } catch (error const& e) {
      return e.what();
    }
    return "";
  };
  CHECK_THAT(complaint(other), Catch::Contains("updates of table 0: int8_blocks") &&
                                   Catch::Contains("updates of table 0: bfloat16"));
  CHECK_THAT(complaint(plain), Catch::Contains("updates of table 0: bfloat16"));
  cluster c{run.process(0, 1), asp{}, agreed};
  CHECK_NOTHROW(c.run([](auto& w) { w.step(); }));
}
