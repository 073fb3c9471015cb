// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A worker process before a server that a test plays, which says where its memory is, and where in it answers lie.
#include <rubato/transport/processes/worker_links.hpp>

#include <catch2/catch.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <rubato/protocol/asp.hpp>
#include <rubato/server/blueprint.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/transport/processes/chunk_arena.hpp>
#include <rubato/transport/processes/read_question.hpp>
#include <rubato/wire/messages.hpp>

#include "patience.hpp"
#include "transport/processes/worker_links_bench.hpp"

using namespace rubato;
using namespace rubato::test::working_alone;
using namespace std::chrono_literals;
using Catch::Contains;

namespace {

constexpr std::size_t mapped_rows = 8192 + 100;  // a chunk and a little
constexpr std::size_t chunk_rows = 8192;

/// Answers reads as a test says; counts it says at once. Tells of its memory when it is asked for the first count.
class sharing_server {
 public:
  using answer = std::function<void(sharing_server&, net::connection&, std::uint64_t ticket)>;

  explicit sharing_server(std::vector<answer> answers)
      : arena_(detail::chunk_arena::make(1 << 20, {1})),
        memory(arena_->where()),
        answers_(std::move(answers)),
        run(1, [this](net::connection& from, wire::frame_header const& header) { hear(from, header); }) {
    for (std::size_t i = 0, n = mapped_rows; n != 0; ++i) {
      std::size_t const some = std::min(n, chunk_rows);
      chunks_.emplace_back(some * sizeof(std::int64_t), arena_.get());
      auto* const values = chunks_.back().mutable_as<std::int64_t>();
      for (std::size_t k = 0; k < some; ++k) values[k] = static_cast<std::int64_t>(i * chunk_rows + k);
      places.push_back(*arena_->offset_of(chunks_.back().data(), chunks_.back().size_bytes()));
      n -= some;
    }
  }

  void reply(net::connection& to, std::uint64_t ticket, wire::reply_meta meta, std::span<std::byte const> body) {
    wire::frame_header h;
    h.kind = +wire::kind::reply;
    h.sequence = ticket;
    meta.asked = selection::all;
    to.send(h, wire::to_bytes(meta), body);
    to.flush();
  }
  /// Where it lies; `holds`: with a pin that does.
  void reply_in_memory(net::connection& to, std::uint64_t ticket, bool holds = true) {
    auto const p = *arena_->add_pin();
    last_pin = p.number;
    if (!holds) arena_->remove_pin(p);
    reply(to, ticket, {.pin = p.number, .slot = p.slot}, std::as_bytes(std::span(places)));
  }
  [[nodiscard]] std::vector<std::uint64_t> released() {
    std::lock_guard const guard(lock_);
    return released_;
  }

 private:
  void hear(net::connection& from, wire::frame_header const& header) {
    if (header.kind == +wire::kind::mapped && header.sequence == memory.number) ++mapped;
    if (header.kind == +wire::kind::released) {
      std::lock_guard const guard(lock_);
      released_.push_back(header.sequence);
    }
    if (header.kind == +wire::kind::count) {
      wire::frame_header h;
      h.kind = +wire::kind::memory;
      from.send(h, wire::to_bytes(memory));
      return answer_count(from, header.sequence);
    }
    if (header.kind != +wire::kind::request) return;
    std::size_t const n = requests++;
    if (n < answers_.size()) answers_[n](*this, from, header.sequence);
  }

  std::unique_ptr<detail::chunk_arena> arena_;
  std::vector<block_ref> chunks_;
  std::mutex lock_;
  std::vector<std::uint64_t> released_;

 public:
  wire::memory_meta memory;  ///< as the worker is told
  std::vector<std::uint64_t> places;
  std::atomic<std::uint64_t> last_pin = 0;
  std::atomic<std::size_t> requests = 0;
  std::atomic<int> mapped = 0;

 private:
  std::vector<answer> answers_;

 public:
  played_cluster run;  // last: its thread goes first
};

/// A worker process that reads the table of a `sharing_server`.
struct reader {
  explicit reader(sharing_server& at)
      : plan(asp{}, 1, {describe(dense<std::int64_t, sum>{.rows = mapped_rows})}),
        self(at.run),
        q(plan, 0, the_server, 1 << 20) {
    told = is_answered(self.links);
  }
  /// Whether the answer comes before the link is lost.
  [[nodiscard]] bool reads() {
    slot.asked = selection::all;
    q.renew({}, slot, asked);
    self.links.ask(the_server, q);
    auto const end = std::chrono::steady_clock::now() + test::patience;
    bool const there = self.links.wait_for(asked, [&] { return std::chrono::steady_clock::now() > end; });
    if (!there) self.links.withdraw(asked);
    return there;
  }
  [[nodiscard]] bool has_all() const {
    std::vector<std::int64_t> all(mapped_rows);
    slot.state.copy(0, mapped_rows * sizeof(std::int64_t), reinterpret_cast<std::byte*>(all.data()));
    for (std::size_t i = 0; i < mapped_rows; ++i)
      if (all[i] != static_cast<std::int64_t>(i)) return false;
    return true;
  }
  [[nodiscard]] std::string lost_for() const { return self.links.is_broken() ? self.links.why_broken().sentence() : ""; }

  blueprint plan;
  process self;
  detail::read_question q;
  read_slot slot;
  detail::inquiry asked;
  bool told = false;
};

void in_memory(sharing_server& s, net::connection& to, std::uint64_t ticket) { s.reply_in_memory(to, ticket); }

/// A worker that is answered so breaks with the server for good, and for this.
void check_refused(sharing_server::answer answer, std::string const& why) {
  test::log_capture const log;
  sharing_server at({std::move(answer)});
  reader r(at);
  REQUIRE(r.told);
  CHECK_FALSE(r.reads());
  CHECK_THAT(r.lost_for(), Contains(why));
}

}  // namespace

TEST_CASE("shared memory: a worker reads where it is told to, and releases that with what it says next", "[shm]") {
  sharing_server at({in_memory, in_memory});
  reader r(at);
  REQUIRE(r.told);
  REQUIRE(comes_to_hold([&] { return at.mapped == 1; }));
  REQUIRE(r.reads());
  CHECK(r.has_all());
  std::uint64_t const first = at.last_pin;
  REQUIRE(r.reads());
  CHECK(r.has_all());
  REQUIRE(comes_to_hold([&] { return at.released().size() == 2; }));  // nothing is said after the second one
  CHECK(at.released() == std::vector<std::uint64_t>{first, at.last_pin});
}

TEST_CASE("shared memory: an answer that has changed before it was read is asked for again", "[shm]") {
  auto const late = [](sharing_server& s, net::connection& to, std::uint64_t ticket) {
    s.reply_in_memory(to, ticket, false);
  };
  sharing_server at({late, late, in_memory});
  reader r(at);
  REQUIRE(r.told);
  REQUIRE(r.reads());
  CHECK(r.has_all());
  CHECK(at.requests == 3);
  REQUIRE(comes_to_hold([&] { return at.released().size() == 1; }));
  CHECK(at.released().front() == at.last_pin);
}

TEST_CASE("shared memory: a server whose pins never hold is given up", "[shm]") {
  test::log_capture const log;
  auto const late = [](sharing_server& s, net::connection& to, std::uint64_t ticket) {
    s.reply_in_memory(to, ticket, false);
  };
  sharing_server at(std::vector<sharing_server::answer>(200, late));
  reader r(at);
  REQUIRE(r.told);
  CHECK_FALSE(r.reads());
  CHECK(at.requests == 101);
  CHECK_THAT(r.lost_for(), Contains("answers whose pins never hold, 101 in a row"));
}

TEST_CASE("shared memory: an answer that nobody waits for is released unread", "[shm]") {
  std::atomic<bool> withdrawn = false;
  auto const later = [&](sharing_server& s, net::connection& to, std::uint64_t ticket) {
    while (!withdrawn) std::this_thread::sleep_for(1ms);
    s.reply_in_memory(to, ticket);
  };
  sharing_server at({later});
  reader r(at);
  REQUIRE(r.told);
  r.slot.asked = selection::all;
  r.q.renew({}, r.slot, r.asked);
  r.self.links.ask(the_server, r.q);
  r.self.links.start({});
  r.self.links.withdraw(r.asked);
  withdrawn = true;
  CHECK(comes_to_hold([&] { return at.released().size() == 1; }));
}

TEST_CASE("shared memory: where it is not what was told of, the worker says nothing and is sent the rows", "[shm]") {
  test::log_capture const log;
  auto const sent = [](sharing_server& s, net::connection& to, std::uint64_t ticket) {
    std::vector<std::int64_t> all(mapped_rows);
    for (std::size_t i = 0; i < mapped_rows; ++i) all[i] = static_cast<std::int64_t>(i);
    s.reply(to, ticket, {}, std::as_bytes(std::span(all)));
  };
  sharing_server at({sent});
  SECTION("another key") { at.memory.key[0] ^= 1; }
  SECTION("another size") { at.memory.bytes += 4096; }
  SECTION("no such file") { at.memory.file = 1'000'000; }
  reader r(at);
  REQUIRE(r.told);
  REQUIRE(r.reads());
  CHECK(r.has_all());
  CHECK(at.mapped == 0);
  CHECK_THAT(log.others(), Contains("its memory cannot be shared ("));
}

TEST_CASE("shared memory: answers that lie where they cannot end the link", "[shm]") {
  auto const at_place = [](std::size_t which, std::uint64_t place) {
    return [=](sharing_server& s, net::connection& to, std::uint64_t ticket) {
      s.places[which] = place;
      s.reply_in_memory(to, ticket);
    };
  };
  SECTION("beyond its end") { check_refused(at_place(1, std::uint64_t{1} << 40), "800 bytes lie at 1099511627776"); }
  SECTION("across its end") {
    check_refused(
        [](sharing_server& s, net::connection& to, std::uint64_t ticket) {
          s.places[0] = s.memory.bytes - 65535;
          s.reply_in_memory(to, ticket);
        },
        "65536 bytes lie at");
  }
  SECTION("where an offset would wrap around") { check_refused(at_place(0, ~std::uint64_t{0} - 7), "65536 bytes lie at"); }
  SECTION("in its head") { check_refused(at_place(0, 0), "65536 bytes lie at 0"); }
  SECTION("in a slot that there is not") {
    check_refused(
        [](sharing_server& s, net::connection& to, std::uint64_t ticket) {
          s.reply(to, ticket, {.pin = 1, .slot = 500}, std::as_bytes(std::span(s.places)));
        },
        "a pin in slot 500");
  }
  SECTION("in too few places") {
    check_refused(
        [](sharing_server& s, net::connection& to, std::uint64_t ticket) {
          s.reply(to, ticket, {.pin = 1, .slot = 0}, std::as_bytes(std::span(s.places)).first(8));
        },
        "a body of 8 bytes, expected 16");
  }
}

TEST_CASE("shared memory: an answer in memory that was never told of ends the link", "[shm]") {
  test::log_capture const log;
  sharing_server at({in_memory});
  at.memory.key[0] ^= 1;
  reader r(at);
  REQUIRE(r.told);
  CHECK_FALSE(r.reads());
  CHECK_THAT(r.lost_for(), Contains("an answer that lies in memory which cannot be seen"));
}
