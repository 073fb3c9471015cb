// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A worker process that lends the memory of its updates to a server that a test plays.
#include <rubato/transport/processes/worker_links.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rubato/protocol/asp.hpp>
#include <rubato/server/blueprint.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/transport/processes/arena_view.hpp>
#include <rubato/transport/processes/outbound_frames.hpp>
#include <rubato/wire/messages.hpp>

#include "transport/processes/worker_links_bench.hpp"

using namespace rubato;
using namespace rubato::test::working_alone;
using Catch::Contains;

namespace {

constexpr std::size_t lent_rows_of_worker = 10'000;  // of int64: 80 kB
constexpr std::uint64_t lent_bytes_of_worker = lent_rows_of_worker * sizeof(std::int64_t);

/// Looks at the memory that it is told of, if `looks`, and says of commits what a test asks for.
class borrowing_server {
 public:
  explicit borrowing_server(bool looks = true)
      : looks_(looks), run(1, [this](net::connection& from, wire::frame_header const& h) { hear(from, h); }) {}

  /// What is said to the worker with the answer to the next count.
  struct orders {
    std::optional<std::uint64_t> acknowledges{};
    std::optional<std::uint64_t> returns{};
    std::optional<std::uint64_t> sees{};
  };
  void on_count(orders o) {
    next_ = o;
    has_orders_ = true;
  }

 private:
  void hear(net::connection& from, wire::frame_header const& header) {
    switch (header.kind) {
      case +wire::kind::memory:
        memory = wire::from_bytes<wire::memory_meta>(run.server().meta());
        ++offers;
        if (looks_) say(from, +wire::kind::mapped, memory.number);
        return;
      case +wire::kind::commit:
        place = wire::from_bytes<wire::commit_meta>(run.server().meta()).parts.at(0).place;
        body = header.length;
        ++commits;
        return;
      case +wire::kind::count:
        if (has_orders_.exchange(false)) follow(from, next_);
        return answer_count(from, header.sequence);
      default: return;
    }
  }
  void follow(net::connection& to, orders const& o) {
    constexpr std::uint8_t ack_kind = 4;  // of a link
    if (o.acknowledges) say(to, ack_kind, *o.acknowledges);
    if (o.sees) say(to, +wire::kind::mapped, *o.sees);
    if (!o.returns) return;
    wire::frame_header h;
    h.kind = +wire::kind::returned;
    h.sequence = ++sent_;
    to.send(h, {}, std::as_bytes(std::span(&*o.returns, 1)));
    to.flush();
  }
  static void say(net::connection& to, std::uint8_t kind, std::uint64_t number) {
    wire::frame_header h;
    h.kind = kind;
    h.sequence = number;
    to.send(h, {});
    to.flush();
  }

  bool looks_;
  orders next_{};
  std::atomic<bool> has_orders_ = false;
  std::uint64_t sent_ = 0;

 public:
  wire::memory_meta memory{};  ///< as told of
  std::uint64_t place = 0;     ///< where the last commit's values lie
  std::uint64_t body = 0;      ///< and how many bytes of it have come
  std::atomic<int> offers = 0, commits = 0;
  played_cluster run;  // last: its thread goes first
};

/// A worker process that lends, and commits ones.
struct lending_process {
  explicit lending_process(borrowing_server& at, bool lends = true, bool shares = true)
      : plan(asp{}, 1, {describe(dense<std::int64_t, sum>{.rows = lent_rows_of_worker})}),
        self(std::in_place, place_of(at, shares)) {
    if (lends) links().lend(plan, 1);
    told = is_answered(links());
  }
  [[nodiscard]] detail::worker_links& links() { return self->links; }
  [[nodiscard]] detail::update_memory const* seen() { return links().seen_by(the_server); }
  void commit() {
    update_buffer part = plan.table(0).pool().take();
    part->whole = true;
    part->values.resize_bytes(static_cast<std::size_t>(lent_bytes_of_worker));
    std::ranges::fill(part->values.as<std::int64_t>(), 1);
    commit_message m;
    m.parts.push_back(std::move(part));
    links().post(the_server, std::make_shared<detail::commit_frame const>(std::move(m), plan.tables(), seen()));
    links().start({});
  }
  /// Whether the server has done what it was told to.
  [[nodiscard]] bool told_to(borrowing_server& at, borrowing_server::orders o) {
    at.on_count(o);
    return is_answered(links());
  }

  blueprint plan;
  std::optional<process> self;
  bool told = false;

 private:
  [[nodiscard]] static net::deployment place_of(borrowing_server& at, bool shares) {
    net::deployment place = at.run.place();
    place.share_memory = shares;
    return place;
  }
};

}  // namespace

TEST_CASE("lent updates: a worker leaves what it has lent as it is until that is returned", "[shm]") {
  borrowing_server at;
  std::optional<lending_process> owner(std::in_place, at);
  lending_process& worker = *owner;
  REQUIRE(worker.told);
  REQUIRE(comes_to_hold([&] { return worker.seen() != nullptr; }));
  CHECK(at.offers == 1);
  std::string why;
  auto const view = detail::arena_view::open(at.memory, why);
  INFO(why);
  REQUIRE(view);
  worker.commit();
  REQUIRE(comes_to_hold([&] { return at.commits == 1; }));
  CHECK(at.body == 0);
  REQUIRE(at.place != 0);
  std::uint64_t const of_one = worker.seen()->used();
  CHECK(of_one >= lent_bytes_of_worker);
  auto const is_as_it_was = [&] {
    auto const* const values = reinterpret_cast<std::int64_t const*>(view->at(at.place));
    return std::count(values, values + lent_rows_of_worker, 1) == static_cast<std::ptrdiff_t>(lent_rows_of_worker);
  };
  CHECK(is_as_it_was());
  std::uint64_t const first_place = at.place;
  REQUIRE(worker.told_to(at, {.acknowledges = 1}));
  worker.commit();  // elsewhere, as the server has the first one and has not returned it
  REQUIRE(comes_to_hold([&] { return at.commits == 2; }));
  CHECK(at.place != first_place);
  CHECK(worker.seen()->used() == 2 * of_one);
  SECTION("and then writes there again") {
    REQUIRE(worker.told_to(at, {.acknowledges = 2, .returns = 1}));
    worker.commit();
    REQUIRE(comes_to_hold([&] { return at.commits == 3; }));
    CHECK(at.place == first_place);
    CHECK(worker.seen()->used() == 2 * of_one);
  }
  SECTION("also where it leaves before") {
    at.place = first_place;
    owner.reset();
    CHECK(is_as_it_was());
  }
}

TEST_CASE("lent updates: what was not lent cannot be returned", "[shm]") {
  test::log_capture const log;
  borrowing_server at;
  lending_process worker(at);
  REQUIRE(worker.told);
  REQUIRE(comes_to_hold([&] { return worker.seen() != nullptr; }));
  std::uint64_t returned = 7;
  SECTION("of no commit") {}
  SECTION("twice") {
    returned = 1;
    worker.commit();
    REQUIRE(worker.told_to(at, {.returns = 1}));
  }
  at.on_count({.returns = returned});
  detail::inquiry asked;
  detail::count_question q(asked);
  worker.links().ask(the_server, q);
  worker.links().start({});
  REQUIRE(comes_to_hold([&] { return worker.links().is_broken(); }));
  worker.links().withdraw(asked);
  CHECK_THAT(worker.links().why_broken().sentence(),
             Contains("commit " + std::to_string(returned) + " was returned, and it has not been lent"));
}

TEST_CASE("lent updates: to a server that does not look they are sent", "[shm]") {
  std::optional<borrowing_server> at;
  bool lends = true, shares = true;
  borrowing_server::orders says{};
  SECTION("as it is silent") { at.emplace(false); }
  SECTION("as it looks at something else") {
    at.emplace(false);
    says.sees = 12345;
  }
  SECTION("as nothing is lent") {
    at.emplace();
    lends = false;
    says.sees = 12345;
  }
  SECTION("as memory is not shared") {
    at.emplace();
    shares = false;
  }
  lending_process worker(*at, lends, shares);
  REQUIRE(worker.told);
  REQUIRE(worker.told_to(*at, says));
  CHECK(at->offers == (lends && shares ? 1 : 0));
  CHECK(worker.seen() == nullptr);
  worker.commit();
  REQUIRE(comes_to_hold([&] { return at->commits == 1; }));
  CHECK(at->body == lent_bytes_of_worker);
  CHECK(at->place == 0);
}
