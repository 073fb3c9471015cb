// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/transport/processes/inbound_frames.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <rubato/core/optional_mutex.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/server/blueprint.hpp>
#include <rubato/server/shard.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/storage/table_description.hpp>
#include <rubato/transport/processes/outbound_frames.hpp>

using namespace rubato;
using namespace rubato::detail;

namespace {

using counting = dense<std::int64_t, sum>;
using keyed = sparse<std::int64_t, sum>;

constexpr std::size_t pushed_rows = 1 << 19;  // 4 MB
constexpr std::size_t pushed_keys = 1 << 18;
constexpr worker_id known{0};
constexpr stage_id stage{1};
constexpr sender known_sender{known, incarnation_id{0}, stage};

/// A server's shard in a stage of one worker, and what arrives there.
class arriving_at {
 public:
  using kind = membership_order::kind;

  explicit arriving_at(rules const& p)
      : tables_(p, 1, {describe(counting{.rows = pushed_rows}), describe(keyed{})}),
        server(tables_, server_id{0}, threading::single),
        at(tables_, server_id{0}, std::uint64_t{1} << 30) {
    server.begin_stage(stage);
    order(kind::enlist);
    order(kind::start);
  }
  void order(kind what) {
    std::vector<worker_id> released;
    server.order({.what = what,
                  .worker = known,
                  .incarnation = incarnation_id{0},
                  .epoch = epoch_id{++orders_},
                  .stage = stage},
                 released);
  }

  /// Of a worker that pushes ones: to all rows, and to many keys. `parts` of it arrive, as far as
  /// there are so many; returns the most room that was given at a time.
  std::size_t begin(sender const& from, bool takes, std::size_t parts = 1000,
                    std::uint64_t sequence = 1) {
    commit_frame const frame(commit_of(from));
    std::vector<std::span<std::byte const>> body;
    frame.gather(body);
    wire::frame_header header = frame.header();
    header.sequence = sequence;
    for (auto const piece : body) header.length += piece.size();
    std::vector<std::span<std::byte>> room;
    std::size_t most = 0;
    std::uint64_t left = header.length;
    for (at.begin_commit(header, frame.meta(), server, takes, room); left != 0 && parts != 0; --parts) {
      std::size_t given = 0;
      for (auto const one : room) {
        given += one.size();
        fill_with_ones(one);
      }
      REQUIRE((given != 0 && given <= left));
      most = std::max(most, given);
      left -= given;
      room.clear();
      if (left != 0) at.more(server, room);
    }
    return most;
  }
  /// What the first row holds by now.
  [[nodiscard]] std::int64_t first_row() {
    auto const chunk = server.host(0).chunk(0);
    return chunk.as<std::int64_t>()[0];
  }

 private:
  static void fill_with_ones(std::span<std::byte> room) {
    constexpr std::int64_t one = 1;
    auto const bytes = std::as_bytes(std::span(&one, 1));
    for (std::size_t i = 0; i < room.size(); ++i) room[i] = bytes[i % sizeof one];
  }
  [[nodiscard]] commit_message commit_of(sender const& from) const {
    auto whole = tables_.table(0).pool().take();
    whole->whole = true;
    whole->rows.clear();
    fill(whole->values, pushed_rows);
    auto some = tables_.table(1).pool().take();
    some->whole = false;
    some->rows.assign(pushed_keys, 1);
    fill(some->values, pushed_keys);
    return {from, clock_index{0}, version_index{0}, {std::move(whole), std::move(some)}};
  }
  static void fill(raw_array& values, std::size_t count) {
    values.resize_bytes(count * sizeof(std::int64_t));
    fill_with_ones(values.bytes());
  }

  blueprint tables_;
  std::uint64_t orders_ = 0;

 public:
  shard server;
  inbound_frames at;
};

void check_read_over(rules const& p) {
  arriving_at here(p);
  sender from = known_sender;
  bool takes = true;
  auto why = refusal::stranger;
  SECTION("of a worker that does not speak over this link") { takes = false; }
  SECTION("of a worker that there is not") { from.worker = worker_id{7}; }
  SECTION("of another life") {
    from.incarnation = incarnation_id{3};
    why = refusal::incarnation;
  }
  SECTION("of another stage") {
    from.stage = stage_id{9};
    why = refusal::stage;
  }
  CHECK(here.begin(from, takes) <= windowed_body::window_size);
  CHECK(here.at.refused() == why);
  auto const m = here.at.take_commit(here.server);
  CHECK(m.bytes() == 0);
  CHECK_FALSE(here.at.is_in_pieces());
  CHECK(here.first_row() == 0);
}

}  // namespace

TEST_CASE("inbound_frames: a commit that is refused takes no memory, however large it is", "[tcp]") {
  SECTION("bsp") { check_read_over(bsp{}); }
  SECTION("asp") { check_read_over(asp{}); }
}

TEST_CASE("inbound_frames: a commit that was refused when it began is so when it has arrived", "[tcp]") {
  arriving_at here(asp{});
  bool const breaks_off = GENERATE(true, false);
  here.begin(known_sender, false, breaks_off ? 2 : 1000);
  if (breaks_off) CHECK(here.begin(known_sender, true) <= windowed_body::window_size);
  CHECK(here.at.refused() == refusal::stranger);
  CHECK(here.at.take_commit(here.server).bytes() == 0);
  here.at.end_commit();
  CHECK(here.first_row() == 0);
  here.begin(known_sender, true, 1000, 2);  // the next one is not
  CHECK(here.at.refused() == refusal::none);
}

TEST_CASE("inbound_frames: a commit that breaks off comes again as it was, or not at all", "[tcp]") {
  arriving_at here(asp{});
  sender other = known_sender;
  SECTION("of another worker") { other.worker = worker_id{7}; }
  SECTION("of another life") { other.incarnation = incarnation_id{3}; }
  here.begin(other, false, 2);  // refused, which is not to be so of an honest one
  CHECK_THROWS_WITH(here.begin(known_sender, true), "a commit that had broken off came again as another one");
  CHECK_NOTHROW(here.begin(known_sender, true, 1000, 2));
}

TEST_CASE("inbound_frames: a commit that is refused in the middle stays as it is, in part", "[tcp]") {
  arriving_at here(asp{});
  here.begin(known_sender, true, 3);
  CHECK(here.at.is_in_pieces());
  CHECK(here.first_row() == 1);
  here.order(membership_order::kind::freeze);
  CHECK(here.begin(known_sender, true) <= windowed_body::window_size);
  CHECK(here.at.refused() == refusal::stranger);
  CHECK(here.at.take_commit(here.server).bytes() == 0);
  CHECK(here.at.is_in_pieces());
  CHECK(here.first_row() == 1);
}
