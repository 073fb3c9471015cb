// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Commits in whose middle memory ends. Called again they go on: what is sent is what would have been, once.
#include <rubato/worker/worker.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/commit_filter.hpp>
#include <rubato/protocol/gaia.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/protocol/visibility.hpp>
#include <rubato/server/messages.hpp>
#include <rubato/storage/bfloat16.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/transport/concepts.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>
#include <rubato/worker/endpoint.hpp>

#include "failing_memory.hpp"
#include "storage/updates.hpp"

namespace rb = rubato;

namespace {

using doubles = std::vector<double>;

/// A part of a commit, as a server got it.
struct sent_part {
  std::uint32_t server = 0;
  std::int64_t stamp = 0;
  bool whole = false;
  std::vector<std::uint64_t> rows{};
  doubles values{};
  bool operator==(sent_part const&) const = default;
};

/// Keeps what a worker posts. Memory ends for the worker, not for the servers, which threads call.
class recording final : public rb::endpoint_decorator {
 public:
  recording(rb::endpoint& inner, std::vector<sent_part>& to) noexcept : endpoint_decorator(inner), sent_(to) {}
  void post(rb::server_id to, rb::commit_message&& commit) override {
    ::operator delete(::operator new(1));  // may fail before anything is taken
    rb::test::no_end_of_memory const here;
    for (std::size_t i = 0; i < commit.parts.size(); ++i)
      sent_.push_back({to.value(), commit.stamp.value(), commit.parts[i]->whole, commit.parts[i]->rows,
                       rb::test::values_of<double>(*commit.parts[i])});
    rb::commit_message taken = std::move(commit);
    inner().post(to, std::move(taken));
  }

 private:
  std::vector<sent_part>& sent_;
};

constexpr std::uint64_t rows = 24;
constexpr int clocks = 4;

/// Sends half of what has changed, and keeps what it has sent beside each element.
struct half_of_differences {
  static constexpr std::size_t slots = 1;

  template <std::floating_point T>
  [[nodiscard]] constexpr T send(rb::filter_point, T, T& u, T& sent) const noexcept {
    T const half = (u - sent) / 2;
    sent += half;
    u -= half;
    return half;
  }
};
static_assert(rb::commit_filter<half_of_differences>);

/// Pushes to four tables, of all rows and of some, and returns what the servers got and what was read.
template <class Fail>
std::pair<std::vector<sent_part>, std::vector<doubles>> train(rb::rules const& p, Fail fail) {
  std::vector<sent_part> sent;
  std::vector<doubles> read;
  rb::decorated const where{rb::in_process{.workers = 1, .servers = 2}, [&](rb::endpoint& inner, rb::worker_id) {
                              return std::make_unique<recording>(inner, sent);
                            }};
  rb::update_filter carrying;
  if (!p.filter) carrying = {.threshold = 1.0, .small = rb::small_entries::carry};  // it has one itself
  rb::cluster c{where, p, rb::dense<double>{.rows = rows}, rb::dense<double>{.rows = rows, .filter = carrying},
                rb::dense<double>{.rows = rows, .codec = {.updates = rb::bfloat16{}}},
                rb::dense<double>{.rows = rows, .filter = carrying}};
  c.run([&](auto& w) {
    doubles of_all(rows), pulled(rows);
    for (int clock = 0; clock < clocks; ++clock) {
      std::vector<std::uint64_t> some;
      doubles of_some;
      for (std::uint64_t k = 0; k < rows; ++k) {
        of_all[k] = (1.0 + 0x1p-10) * static_cast<double>((k + static_cast<std::uint64_t>(clock)) % 4) / 2;
        if (k % 4 > 1) continue;
        some.push_back(k);
        of_some.push_back(of_all[k]);
      }
      w[rb::table<0>].pull(pulled);
      w[rb::table<0>].push(some, of_some);
      w[rb::table<1>].push(of_all);
      w[rb::table<2>].push(clock % 2 == 0 ? std::span<std::uint64_t const>() : std::span<std::uint64_t const>(some),
                           clock % 2 == 0 ? std::span<double const>() : std::span<double const>(of_some));
      if (clock % 2 == 0) w[rb::table<2>].push(of_all);
      w[rb::table<3>].push(some, of_some);
      fail(clock, [&] { w.commit(); }, [&] { w[rb::table<0>].pull(pulled); });
      REQUIRE(w.clock() == rb::clock_index{clock + 1});
      for (auto pull : {0, 1, 2, 3}) {
        if (pull == 0) w[rb::table<0>].pull(pulled);
        if (pull == 1) w[rb::table<1>].pull(pulled);
        if (pull == 2) w[rb::table<2>].pull(pulled);
        if (pull == 3) w[rb::table<3>].pull(pulled);
        read.push_back(pulled);
      }
    }
  });
  return {sent, read};
}

}  // namespace

TEST_CASE("a commit in whose middle memory ends goes on where it was, and nothing of it is lost or goes twice") {
  rb::rules const p =
      GENERATE(rb::rules(rb::asp{}), rb::rules(rb::with(rb::ssp{.staleness = 0}, rb::strict{})),
               rb::rules(rb::gaia{.significant = {.threshold = 0.3}}),
               rb::rules(rb::with(rb::asp{}, half_of_differences{})));
  bool const by_another_call = GENERATE(false, true);
  auto const expected = train(p, [](int, auto commit, auto) { commit(); });
  std::size_t const times = rb::test::for_each_end_of_memory([&](auto attempt) {
    auto const got = train(p, [&](int clock, auto commit, auto pull) {
      if (clock != 1 || !attempt(commit)) {
        if (clock == 1 && by_another_call) pull();
        else commit();
      }
    });
    REQUIRE(got == expected);
  });
  CHECK((times > 4 || !rb::test::memory_can_end()));
}
