// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A server before worker processes that a test plays, whose updates lie in memory that these lend.
#include <rubato/transport/processes/server_process.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/storage/bfloat16.hpp>
#include <rubato/transport/processes/update_memory.hpp>

#include "transport/processes/server_process_bench.hpp"

using namespace rubato;
using namespace std::chrono_literals;
using Catch::Contains;
using detail::update_memory;
using test::serving_alone::first_worker;
using test::serving_alone::second_worker;

namespace {

constexpr std::size_t lent_rows = 2 * 8192 + 100;  // of 8 bytes: two chunks and a little

/// A worker process that lends memory.
class lender {
 public:
  lender(blueprint const& plan, test::serving_alone::worker_peer& as)
      : tables_(plan.tables()), memory(update_memory::make(plan, 2, network_)), peer(as) {
    REQUIRE(memory != nullptr);
  }

  void offer() { offer(memory->where()); }
  void offer(wire::memory_meta const& where) { peer.say(wire::kind::memory, 0, wire::to_bytes(where)); }
  /// Takes all of it away, as far as a process can.
  void leave() {
    memory->retire();
    kept_.clear();
    memory.reset();
  }
  /// In memory that is lent.
  template <class T>
  [[nodiscard]] raw_array values(T each, std::size_t n = lent_rows) const {
    raw_array all(memory);
    all.resize_bytes(n * sizeof(T));
    std::ranges::fill(all.as<T>(), each);
    return all;
  }
  /// What is lent may go in turns.
  void commit_in_turns(sender const& from, std::int64_t clock, raw_array values) {
    commit_message m{.from = from, .stamp = clock_index{clock}, .version = version_index{clock}, .parts = {}};
    m.parts.push_back(shared_update(update{.whole = true, .rows = {}, .values = std::move(values)}));
    kept_.push_back(m.parts[0]);
    peer.commit(std::move(m), memory.get(), tables_, 0);
  }
  void commit(sender const& from, std::int64_t clock, update u, bool lent = true) {
    commit_message m{.from = from, .stamp = clock_index{clock}, .version = version_index{clock}, .parts = {}};
    m.parts.push_back(shared_update(std::move(u)));
    kept_.push_back(m.parts[0]);
    peer.commit(std::move(m), lent ? memory.get() : nullptr);
  }
  void commit(sender const& from, std::int64_t clock, raw_array values, bool lent = true) {
    commit(from, clock, update{.whole = true, .rows = {}, .values = std::move(values)}, lent);
  }
  /// Frames of this kind that the server has sent.
  [[nodiscard]] std::vector<std::uint64_t> heard(wire::kind kind) const {
    std::vector<std::uint64_t> all;
    for (auto const& a : peer.answers())
      if (a.header.kind == +kind) all.push_back(a.header.sequence);
    return all;
  }
  [[nodiscard]] bool is_seen() const {
    return std::ranges::count(heard(wire::kind::mapped), memory->where().number) != 0;
  }
  /// Numbers of commits that are.
  [[nodiscard]] std::vector<std::uint64_t> returned() const {
    std::vector<std::uint64_t> all;
    for (std::size_t i = 0; i < peer.answers().size(); ++i)
      if (peer.answers()[i].header.kind == +wire::kind::returned)
        all.push_back(static_cast<std::uint64_t>(peer.values(i).at(0)));
    return all;
  }

 private:
  net::asio_network network_;  // for random numbers
  std::vector<shared_update> kept_;  // longer than it would have to
  std::span<table_blueprint const> tables_;

 public:
  std::shared_ptr<update_memory> memory;
  test::serving_alone::worker_peer& peer;
};

using lent_counts = test::serving_alone::counting;

/// A server that shares memory, and two workers, each in a process of its own, of which the first lends.
struct lending_run : test::serving_alone::played_run {
  explicit lending_run(rules const& p,
                       std::vector<table_description> const& tables = {describe(lent_counts{.rows = lent_rows})},
                       net::server_limits const& limits = {}, bool shares = true)
      : played_run(blueprint(p, 1, tables), limits, std::uint64_t{1} << 30, std::make_unique<net::asio_network>(),
                   shares),
        other(connected(network(), second_worker)) {
    to().join(second_worker);
    REQUIRE(until([&] { return to().has_started(second_worker); }));
    worker.emplace(plan(), first());
  }
  void offer() {
    worker->offer();
    REQUIRE(until([&] { return worker->is_seen(); }));
  }
  [[nodiscard]] sender self() { return to().identity(first_worker); }
  /// What a worker reads at this clock.
  [[nodiscard]] std::vector<std::int64_t> read(test::serving_alone::worker_peer& by, worker_id w, std::int64_t clock) {
    auto const replies = [&] {
      return std::ranges::count(by.answers(), +wire::kind::reply, [](auto const& a) { return a.header.kind; });
    };
    auto const before = replies();
    by.ask(to().identity(w), clock_index{clock});
    REQUIRE(until([&] { return replies() == before + 1; }));
    std::size_t last = by.answers().size() - 1;
    while (by.answers()[last].header.kind != +wire::kind::reply) --last;
    return by.values(last);
  }
  [[nodiscard]] std::vector<std::int64_t> read(std::int64_t clock) { return read(first(), first_worker, clock); }
  /// That the first one's connection ends for this.
  void check_cut_off(std::string const& why) {
    REQUIRE(until([&] { return !first().lost_for().empty(); }));
    CHECK_THAT(first().lost_for(), Contains(why));
    CHECK(stats().commits == 0);
  }

  std::unique_ptr<test::serving_alone::worker_peer> other;
  std::optional<lender> worker;
};

/// Without 16,000 numbers in the report.
bool is(std::vector<std::int64_t> const& rows, std::int64_t x) {
  CAPTURE(x, rows.front());
  return std::ranges::count(rows, x) == static_cast<std::ptrdiff_t>(lent_rows) && rows.size() == lent_rows;
}
std::vector<std::int64_t> all_rows(std::int64_t x) { return std::vector<std::int64_t>(lent_rows, x); }

/// A commit whose values are said to lie at `place`, of which nothing is sent but that.
class said_to_lie final : public net::reliable_frame {
 public:
  template <class... Parts>
  explicit said_to_lie(sender const& from, Parts const&... parts)
      : from_(from), meta_(wire::to_bytes(wire::commit_meta{.stage = from.stage, .parts = {parts...}})) {}
  [[nodiscard]] wire::frame_header header() const override {
    wire::frame_header h;
    h.kind = +wire::kind::commit;
    h.sender = from_.worker.value();
    return h;
  }
  [[nodiscard]] std::span<std::byte const> meta() const override { return meta_; }
  void gather(std::vector<std::span<std::byte const>>&) const override {}

 private:
  sender from_;
  std::vector<std::byte> meta_;
};

}  // namespace

TEST_CASE("lent updates: one is folded from where it lies, and returned at once", "[shm]") {
  lending_run run(asp{});
  run.offer();
  for (std::int64_t clock = 0; clock < 3; ++clock)
    run.worker->commit(run.self(), clock, run.worker->values<std::int64_t>(clock + 1));
  REQUIRE(run.until([&] { return run.worker->returned().size() == 3; }));
  CHECK(run.worker->returned() == std::vector<std::uint64_t>{1, 2, 3});
  CHECK(is(run.read(0), 1 + 2 + 3));
  CHECK(run.stats().commits_in_memory == 3);
  CHECK(run.stats().bytes_received == 3 * lent_rows * sizeof(std::int64_t));
  CHECK(run.server().tables().host(0).chunks() == 3);
}

TEST_CASE("lent updates: what is held back is read where it lies later, and returned then", "[shm]") {
  lending_run run(bsp{});
  run.offer();
  run.worker->commit(run.self(), 0, run.worker->values<std::int64_t>(2));
  REQUIRE(run.until([&] { return run.stats().commits == 1; }));
  CHECK(run.stats().commits_in_memory == 1);
  run.settle();
  CHECK(run.worker->returned().empty());
  SECTION("once all have committed") {}
  SECTION("also where the connection broke meanwhile, and it is not lent twice") {
    test::log_capture const log;
    run.first().cut();
    REQUIRE(run.until([&] { return run.first().is_up(); }));
    std::size_t const before = run.worker->heard(wire::kind::mapped).size();
    run.worker->offer();  // as it may not know that it is seen
    REQUIRE(run.until([&] { return run.worker->heard(wire::kind::mapped).size() == before + 1; }));
    CHECK(run.worker->returned().empty());
  }
  run.commit(*run.other, second_worker, clock_index{0});
  REQUIRE(run.until([&] { return run.worker->returned().size() == 1; }));
  CHECK(run.worker->returned() == std::vector<std::uint64_t>{1});
  CHECK(is(run.read(1), 3));
}

TEST_CASE("lent updates: memory of a process that is gone stays for as long as an update in it is held back",
          "[shm][loss]") {
  test::log_capture const log;
  lending_run run(bsp{});
  run.offer();
  run.worker->commit(run.self(), 0, run.worker->values<std::int64_t>(2));
  REQUIRE(run.until([&] { return run.stats().commits == 1; }));
  run.to().lose(first_worker);
  REQUIRE(run.until([&] { return !run.first().lost_for().empty(); }));
  run.worker->leave();
  run.commit(*run.other, second_worker, clock_index{0});
  REQUIRE(run.until([&] { return run.stats().commits == 2; }));
  CHECK(is(run.read(*run.other, second_worker, 1), 3));
}

TEST_CASE("lent updates: one that is refused is returned, too", "[shm]") {
  test::log_capture const log;
  lending_run run(asp{});
  run.offer();
  sender late = run.self();
  late.stage = stage_id{0};
  run.worker->commit(late, 0, run.worker->values<std::int64_t>(2));
  REQUIRE(run.until([&] { return run.worker->returned().size() == 1; }));
  CHECK(run.stats().refused == 1);
  CHECK(run.stats().commits_in_memory == 0);
  CHECK(is(run.read(0), 0));
}

TEST_CASE("lent updates: what comes in the socket goes on beside them", "[shm]") {
  lending_run run(asp{});
  run.worker->commit(run.self(), 0, run.worker->values<std::int64_t>(1), false);
  run.offer();
  run.worker->commit(run.self(), 1, run.worker->values<std::int64_t>(2));
  raw_array elsewhere;
  elsewhere.append(run.worker->values<std::int64_t>(4).bytes());
  run.worker->commit(run.self(), 2, std::move(elsewhere));
  REQUIRE(run.until([&] { return run.stats().commits == 3; }));
  CHECK(run.stats().commits_in_memory == 1);
  CHECK(is(run.read(0), 7));
  CHECK(run.worker->returned() == std::vector<std::uint64_t>{2});
}

TEST_CASE("lent updates: values of some rows may lie there, too", "[shm]") {
  bool const at_once = GENERATE(true, false);
  lending_run run(at_once ? rules(asp{}) : rules(bsp{}));
  run.offer();
  update u{.whole = false, .rows = {}, .values = run.worker->values<std::int64_t>(5)};
  for (std::uint64_t row = 1; row < lent_rows; row += 2) u.rows.push_back(row);
  u.values.resize_bytes(u.rows.size() * sizeof(std::int64_t));
  run.worker->commit(run.self(), 0, std::move(u));
  if (!at_once) run.commit(*run.other, second_worker, clock_index{0});
  REQUIRE(run.until([&] { return run.worker->returned().size() == 1; }));
  CHECK(run.stats().commits_in_memory == 1);
  auto expected = all_rows(at_once ? 0 : 1);
  for (std::size_t row = 1; row < lent_rows; row += 2) expected[row] += 5;
  CHECK((run.read(at_once ? 0 : 1) == expected));
}

// ---- in turns

namespace {

constexpr std::size_t rows_of_turns = 8 * 524'288 + 1000;  // of int64: eight stretches and a little

struct run_in_turns : lending_run {
  explicit run_in_turns(rules const& p) : lending_run(p, {describe(lent_counts{.rows = rows_of_turns})}) { offer(); }
  void commit_threes() {
    worker->commit_in_turns(self(), 0, worker->values<std::int64_t>(3, rows_of_turns));
  }
  [[nodiscard]] std::int64_t first_row() const {
    return server().tables().host(0).chunk(0).as<std::int64_t>()[0];
  }
  /// Whether all rows are this, as a worker reads them at this clock.
  [[nodiscard]] bool all_are(std::int64_t x, std::int64_t clock) {
    auto const rows = read(clock);
    CAPTURE(x, rows.front(), rows.back());
    return std::ranges::count(rows, x) == static_cast<std::ptrdiff_t>(rows_of_turns) && rows.size() == rows_of_turns;
  }
};

}  // namespace

TEST_CASE("lent updates: while a large one is folded others are heard", "[shm]") {
  run_in_turns run(asp{});
  run.commit_threes();
  run.other->ask(run.to().identity(second_worker), clock_index{0});
  REQUIRE(run.until([&] { return !run.other->answers().empty(); }));
  CHECK(run.stats().commits == 0);
  REQUIRE(run.until([&] { return run.worker->returned().size() == 1; }));
  CHECK(run.stats().commits_in_memory == 1);
  CHECK(run.stats().bytes_received == rows_of_turns * sizeof(std::int64_t));
  CHECK(run.all_are(3, 0));
}

TEST_CASE("lent updates: a large one that breaks off among its turns comes again, and counts once", "[shm][loss]") {
  test::log_capture const log;
  run_in_turns run(asp{});
  run.commit_threes();
  REQUIRE(run.until([&] { return run.first_row() == 3; }));
  REQUIRE(run.stats().commits == 0);
  run.first().cut();
  REQUIRE(run.until([&] { return run.worker->returned().size() == 1; }));
  CHECK(run.stats().reconnects == 1);
  CHECK(run.stats().commits == 1);
  CHECK(run.all_are(3, 0));
}

TEST_CASE("lent updates: what is left of a large one whose process is lost among its turns is told", "[shm][loss]") {
  test::log_capture const log;
  run_in_turns run(asp{});
  run.commit_threes();
  REQUIRE(run.until([&] { return run.first_row() == 3; }));
  run.to().lose(first_worker);
  REQUIRE(run.until([&] { return !run.first().lost_for().empty(); }));
  run.to().lose(second_worker);
  run.to().end_stage();
  REQUIRE(run.until([&] { return run.to().counted().has_value(); }));
  CHECK(run.to().counted()->partly_folded == 1);
  CHECK(run.to().counted()->commits == 0);
}

TEST_CASE("lent updates: one that comes in turns to a server that keeps it is kept as a whole", "[shm]") {
  run_in_turns run(bsp{});
  run.commit_threes();
  REQUIRE(run.until([&] { return run.stats().commits == 1; }));
  CHECK(run.first_row() == 0);
  run.commit(*run.other, second_worker, clock_index{0});
  REQUIRE(run.until([&] { return run.worker->returned().size() == 1; }));
  CHECK(run.all_are(4, 1));
}

// ---- servers that check values

namespace {

constexpr std::size_t checked_rows = 700'000;  // of float: more than the stretch that is checked at a time

struct checking_run : lending_run {
  explicit checking_run(rules const& p)
      : lending_run(p, {describe(dense<float, sum>{.rows = checked_rows})}, {.check_finite = true}) {
    offer();
  }
  [[nodiscard]] std::vector<float> floats(std::int64_t clock) {
    auto const bytes = read(clock);
    std::vector<float> all(checked_rows);
    REQUIRE(bytes.size() * sizeof(std::int64_t) == checked_rows * sizeof(float));
    std::ranges::copy(std::as_bytes(std::span(bytes)), std::as_writable_bytes(std::span(all)).begin());
    return all;
  }
};

}  // namespace

TEST_CASE("lent updates: values that are checked are found wherever they lie", "[shm]") {
  test::log_capture const log;
  checking_run run(GENERATE(0, 1) == 0 ? rules(asp{}) : rules(bsp{}));
  auto values = run.worker->values<float>(1, checked_rows);
  values.as<float>()[GENERATE(0U, checked_rows / 2, checked_rows - 1)] = std::numeric_limits<float>::quiet_NaN();
  run.worker->commit(run.self(), 0, std::move(values));
  run.check_cut_off("an update of table 0 with NaN in it");
  CHECK(run.stats().not_finite == 1);
}

TEST_CASE("lent updates: values that are checked are found in every turn", "[shm]") {
  test::log_capture const log;
  constexpr std::size_t rows = 3'000'000;
  lending_run run(asp{}, {describe(dense<float, sum>{.rows = rows})}, {.check_finite = true});
  run.offer();
  auto values = run.worker->values<float>(1, rows);
  values.as<float>()[GENERATE(100U, rows - 1)] = std::numeric_limits<float>::quiet_NaN();
  run.worker->commit_in_turns(run.self(), 0, std::move(values));
  run.check_cut_off("an update of table 0 with NaN in it");
  CHECK(run.stats().not_finite == 1);
}

TEST_CASE("lent updates: values that are checked are the server's own from then on", "[shm]") {
  checking_run run(bsp{});
  auto values = run.worker->values<float>(1, checked_rows);
  std::span<float> const seen = values.as<float>();
  run.worker->commit(run.self(), 0, std::move(values));
  REQUIRE(run.until([&] { return !run.worker->returned().empty(); }));  // before the other one has committed
  std::ranges::fill(seen, std::numeric_limits<float>::quiet_NaN());
  update u{.whole = true, .rows = {}, .values = {}};
  u.values.resize_bytes(checked_rows * sizeof(float));
  std::ranges::fill(u.values.as<float>(), 2.0F);
  commit_message m{.from = run.to().identity(second_worker), .stamp = {}, .version = {}, .parts = {}};
  m.parts.push_back(shared_update(std::move(u)));
  run.other->commit(std::move(m));
  CHECK(std::ranges::count(run.floats(1), 3.0F) == static_cast<std::ptrdiff_t>(checked_rows));
}

TEST_CASE("lent updates: values that are checked are folded in stretches that end between rows", "[shm]") {
  checking_run run(asp{});
  auto values = run.worker->values<float>(0, checked_rows);
  for (std::size_t i = 0; i < checked_rows; ++i) values.as<float>()[i] = static_cast<float>(i % 1009);
  std::vector<float> const sent(values.as<float>().begin(), values.as<float>().end());
  run.worker->commit(run.self(), 0, std::move(values));
  CHECK((run.floats(0) == sent));
  CHECK(run.stats().commits_in_memory == 1);
}

// ---- what cannot be

TEST_CASE("lent updates: places where none can lie end the link, and nothing is folded", "[shm]") {
  test::log_capture const log;
  lending_run run(GENERATE(0, 1) == 0 ? rules(asp{}) : rules(bsp{}));
  run.offer();
  constexpr std::uint64_t size = lent_rows * sizeof(std::int64_t);
  std::uint64_t const end = run.worker->memory->where().bytes;
  auto const check = [&](std::uint64_t place, std::uint64_t bytes, std::string const& why) {
    run.first().send(std::make_shared<said_to_lie const>(run.self(), wire::part_size{true, 0, bytes, place}));
    run.check_cut_off(why);
  };
  SECTION("beyond its end") { check(std::uint64_t{1} << 50, size, " bytes lie at "); }
  SECTION("across its end") { check((end - 4096) / 64 * 64, size, " bytes lie at "); }
  SECTION("where it would wrap around") { check(~std::uint64_t{63}, size, " bytes lie at "); }
  SECTION("in its head") { check(64, size, " bytes lie at 64"); }
  SECTION("off a line") { check(8192 + 4, size, "at 8196, expected a multiple of 64"); }
  SECTION("of another size than the table") { check(8192, size - 8, "expected at most"); }
  SECTION("of more than there is") { check(8192, size + 8, "expected at most"); }
}

TEST_CASE("lent updates: one that says it comes in turns and cannot ends the link", "[shm]") {
  test::log_capture const log;
  constexpr std::size_t long_row = 1024 * 1024 / 8 + 1;  // of int64: over a MiB
  lending_run run(asp{}, {describe(lent_counts{.rows = 2, .width = long_row})});
  run.offer();
  auto const check = [&](wire::part_size part) {
    part.in_turns = true;
    run.first().send(std::make_shared<said_to_lie const>(run.self(), part));
    run.check_cut_off("an update of table 0 in turns");
  };
  constexpr std::uint64_t row = long_row * 8;
  SECTION("as it is one chunk") {
    lending_run small(asp{}, {describe(lent_counts{.rows = 8192})});
    small.offer();
    wire::part_size const part{.whole = true, .bytes = 65'536, .place = 8192, .in_turns = true};
    small.first().send(std::make_shared<said_to_lie const>(small.self(), part));
    small.check_cut_off("an update of table 0 in turns");
  }
  SECTION("as its rows are long") { check({.whole = true, .bytes = 2 * row, .place = 8192}); }
  SECTION("as it is of some rows") { check({.whole = false, .rows = 1, .bytes = row, .place = 8192}); }
  SECTION("as it is in the body") { check({.whole = true, .bytes = 2 * row}); }
}

TEST_CASE("lent updates: one in memory that was never told of ends the link", "[shm]") {
  test::log_capture const log;
  lending_run run(asp{});
  run.worker->commit(run.self(), 0, run.worker->values<std::int64_t>(1));
  run.check_cut_off("an update of table 0 in memory that this server does not see");
}

TEST_CASE("lent updates: values that a codec writes are in the body", "[shm]") {
  test::log_capture const log;
  dense<float, sum> const answers{.rows = 2 * lent_rows, .codec = {.answers = bfloat16{}}};
  dense<float, sum> const updates{.rows = 2 * lent_rows, .codec = {.updates = bfloat16{}}};
  lending_run run(asp{}, {describe(answers), describe(updates)});
  run.offer();
  update u{.whole = true, .rows = {}, .values = run.worker->values<float>(1, 2 * lent_rows)};
  commit_message m{.from = run.self(), .stamp = {}, .version = {}, .parts = {}};
  for (int i = 0; i < 2; ++i) m.parts.push_back(shared_update(u));
  SECTION("as the worker says") {
    detail::commit_frame const frame(std::move(m), run.plan().tables(), run.worker->memory.get());
    auto const meta = wire::from_bytes<wire::commit_meta>(frame.meta());
    CHECK(meta.parts.at(1).place == 0);
  }
  SECTION("or the link ends") {
    run.first().send(std::make_shared<said_to_lie const>(
        run.self(), wire::part_size{}, wire::part_size{true, 0, 2 * lent_rows * sizeof(std::uint16_t), 8192}));
    run.check_cut_off("an update of table 1, which has a codec, in memory that was lent");
  }
}

TEST_CASE("lent updates: memory that cannot be seen is not spoken of", "[shm]") {
  test::log_capture const log;
  lending_run run(asp{});
  auto where = run.worker->memory->where();
  SECTION("another key") { where.key[0] ^= 1; }
  SECTION("another size") { where.bytes += 4096; }
  SECTION("no such file") { where.file = 1'000'000; }
  run.worker->offer(where);
  run.worker->commit(run.self(), 0, run.worker->values<std::int64_t>(1), false);
  REQUIRE(run.until([&] { return run.stats().commits == 1; }));
  CHECK_FALSE(run.worker->is_seen());
  CHECK_THAT(log.others(), Contains("its memory cannot be shared ("));
  run.offer();  // the right one
}

TEST_CASE("lent updates: other memory in place of what is lent ends the link", "[shm]") {
  test::log_capture const log;
  lending_run run(asp{});
  run.offer();
  lender const another(run.plan(), run.first());
  run.worker->offer(another.memory->where());
  run.check_cut_off("memory for updates in place of what was lent before");
}

TEST_CASE("lent updates: a server that shares no memory looks at none", "[shm]") {
  lending_run run(asp{}, {describe(lent_counts{.rows = lent_rows})}, {}, false);
  run.worker->offer();
  run.worker->commit(run.self(), 0, run.worker->values<std::int64_t>(1), false);
  REQUIRE(run.until([&] { return run.stats().commits == 1; }));
  CHECK_FALSE(run.worker->is_seen());
}
