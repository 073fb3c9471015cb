// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/transport/tcp/arrivals.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <rubato/cluster/blueprint.hpp>
#include <rubato/core/null_mutex.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/transport/tcp/bodies.hpp>

using namespace rubato;
using namespace rubato::detail;

namespace {

using counting = dense<std::int64_t, sum>;
using keyed = sparse<std::int64_t, sum>;

constexpr std::size_t rows = 1 << 19;  // 4 MB
constexpr std::size_t keys = 1 << 18;
constexpr worker_id known{0};
constexpr stage_id stage{1};
constexpr sender identity{known, incarnation_id{0}, stage};

/// A server's shard in a stage of one worker, and what arrives there.
template <protocol P>
class arriving_at {
 public:
  using plan = blueprint<null_mutex, P, counting, keyed>;
  using message = typename plan::message;
  using kind = membership_order::kind;

  explicit arriving_at(P p)
      : tables_(p, 1, counting{.rows = rows}, keyed{}),
        shard(tables_.make_shard(server_id{0})),
        at(tables_, server_id{0}, std::uint64_t{1} << 30) {
    shard->begin_stage(stage);
    order(kind::enlist);
    order(kind::start);
  }
  void order(kind what) {
    std::vector<worker_id> released;
    shard->order({.what = what,
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
    commit_frame<message> const frame(commit_of(from));
    std::vector<std::span<std::byte const>> body;
    frame.gather(body);
    wire::frame_header header = frame.header();
    header.sequence = sequence;
    for (auto const piece : body) header.length += piece.size();
    std::vector<std::span<std::byte>> room;
    std::size_t most = 0;
    std::uint64_t left = header.length;
    for (at.begin_commit(header, frame.meta(), *shard, takes, room); left != 0 && parts != 0; --parts) {
      std::size_t given = 0;
      for (auto const one : room) {
        given += one.size();
        fill_with_ones(one);
      }
      REQUIRE((given != 0 && given <= left));
      most = std::max(most, given);
      left -= given;
      room.clear();
      if (left != 0) at.more(*shard, room);
    }
    return most;
  }
  /// What the first row holds by now.
  [[nodiscard]] std::int64_t first_row() {
    auto const chunk = shard->template store<0>().chunk_now(0);
    return *chunk.data();
  }

 private:
  static void fill_with_ones(std::span<std::byte> room) {
    constexpr std::int64_t one = 1;
    auto const bytes = std::as_bytes(std::span(&one, 1));
    for (std::size_t i = 0; i < room.size(); ++i) room[i] = bytes[i % sizeof one];
  }
  [[nodiscard]] message commit_of(sender const& from) const {
    auto whole = tables_.template pool<0>().take();
    whole->whole = true;
    whole->rows.clear();
    whole->values.assign(rows, 1);
    auto some = tables_.template pool<1>().take();
    some->whole = false;
    some->rows.assign(keys, 1);
    some->values.assign(keys, 1);
    return {from, clock_index{0}, version_index{0}, {std::move(whole), std::move(some)}};
  }

  plan tables_;
  std::uint64_t orders_ = 0;

 public:
  std::unique_ptr<typename plan::shard_type> shard;
  arrivals<plan> at;
};

template <protocol P>
void check_read_over(P p) {
  arriving_at<P> here(p);
  sender from = identity;
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
  CHECK(here.begin(from, takes) <= pieces::window_size);
  CHECK(here.at.refused() == why);
  auto const m = here.at.take_commit(*here.shard);
  CHECK(m.bytes() == 0);
  CHECK_FALSE(here.at.is_in_pieces());
  CHECK(here.first_row() == 0);
}

}  // namespace

TEST_CASE("arrivals: a commit that is refused takes no memory, however large it is", "[tcp]") {
  SECTION("bsp") { check_read_over(bsp{}); }
  SECTION("asp") { check_read_over(asp{}); }
}

TEST_CASE("arrivals: a commit that was refused when it began is so when it has arrived", "[tcp]") {
  arriving_at here(asp{});
  bool const breaks_off = GENERATE(true, false);
  here.begin(identity, false, breaks_off ? 2 : 1000);
  if (breaks_off) CHECK(here.begin(identity, true) <= pieces::window_size);
  CHECK(here.at.refused() == refusal::stranger);
  CHECK(here.at.take_commit(*here.shard).bytes() == 0);
  here.at.end_commit();
  CHECK(here.first_row() == 0);
  here.begin(identity, true, 1000, 2);  // the next one is not
  CHECK(here.at.refused() == refusal::none);
}

TEST_CASE("arrivals: a commit that is refused in the middle stays as it is, in part", "[tcp]") {
  arriving_at here(asp{});
  here.begin(identity, true, 3);
  CHECK(here.at.is_in_pieces());
  CHECK(here.first_row() == 1);
  here.order(membership_order::kind::freeze);
  CHECK(here.begin(identity, true) <= pieces::window_size);
  CHECK(here.at.refused() == refusal::stranger);
  CHECK(here.at.take_commit(*here.shard).bytes() == 0);
  CHECK(here.at.is_in_pieces());
  CHECK(here.first_row() == 1);
}
