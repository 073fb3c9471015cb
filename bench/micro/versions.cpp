// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// What it costs to keep updates apart by version: commits beside those that are added at once, and
// pulls that add up live versions beside memcpy of as many bytes.

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/micro/table.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/protocol/asp.hpp"
#include "rubato/protocol/dyn_sgd.hpp"
#include "rubato/protocol/protocol.hpp"
#include "rubato/server/blueprint.hpp"
#include "rubato/server/coordinator.hpp"
#include "rubato/server/shard.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/storage/multi_version.hpp"
#include "rubato/transport/in_process.hpp"

namespace rubato::bench {
namespace {

constexpr std::size_t million = 1'000'000;
constexpr dyn_sgd revising{.staleness = staleness{1'000'000}};

using floats = dense<float>;
using versions_of_floats = multi_version<dense<float>>;

template <class F>
double seconds_of(F f) {
  auto const start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Values for so many rows, of one float each.
shared_update make_update(std::vector<std::uint64_t> rows, std::size_t count, bool whole) {
  update u{.whole = whole, .rows = std::move(rows), .values = {}};
  u.values.resize_bytes(count * sizeof(float));
  std::ranges::fill(u.values.as<float>(), 1e-3F);
  return update_buffer(std::move(u));
}
shared_update whole_update(std::size_t rows) { return make_update({}, rows, true); }

/// The rows `first` to `first + count` of a walk over all `rows` (a power of ten), in steps of the
/// golden section, which no prefetcher follows.
std::vector<key> scattered_keys(std::size_t first, std::size_t count, std::size_t rows) {
  std::size_t const step = rows / 1000 * 618 + 1;
  std::vector<key> keys(count);
  for (std::size_t i = 0; i < count; ++i) keys[i] = key{(first + i) * step % rows};
  return keys;
}

shared_update keyed_update(std::size_t count, std::size_t rows) {
  std::vector<std::uint64_t> keys;
  for (key const k : scattered_keys(0, count, rows)) keys.push_back(k.value());
  return make_update(std::move(keys), count, false);
}

// ---- one shard, and workers that do what the measurement tells them

class driven_shard {
 public:
  template <table_spec Table>
  driven_shard(rules p, Table const& table, std::uint32_t workers)
      : plan_(std::move(p), 1, {describe(table)}),
        shard_(plan_, server_id{0}, threading::multiple),
        clocks_(workers),
        slots_(workers) {
    shard_.begin_stage(stage);
    coordinator members(1);
    members.begin_stage(stage);
    for (std::uint32_t w = 0; w < workers; ++w)
      for (std::optional order = members.join(worker_id{w}, {}); order;) {
        auto const report = shard_.order(*order, released_);
        order = report ? members.report(*order, *report) : std::nullopt;
      }
  }

  void commit(std::uint32_t w, shared_update const& u) {
    released_.clear();
    commit_message m{.from = from(w), .stamp = clocks_[w], .version = version(w)};
    m.parts.resize(1);
    m.parts[0] = u;
    (void)shard_.commit(std::move(m), released_);
    clocks_[w] = clocks_[w].next();
  }

  /// A read of everything; what was read stays with the worker until its next read.
  read_slot const& pull(std::uint32_t w, shared_cut cut = nullptr) {
    slots_[w].asked = selection::all;
    return read(w, std::move(cut));
  }
  /// A read of one row, after which the worker has seen as much as after any other.
  void look(std::uint32_t w) {
    slots_[w].asked = selection::rows;
    slots_[w].rows = {0};
    read(w, nullptr);
  }

  /// All that has been committed.
  [[nodiscard]] shared_cut everything() const {
    return std::make_shared<commit_cut const>(clocks_, std::ranges::min(clocks_));
  }
  /// Commits up to now are below the low-water mark.
  void advance() {
    released_.clear();
    shard_.advance(stage, *everything(), released_);
  }

 private:
  static constexpr stage_id stage{1};

  [[nodiscard]] static sender from(std::uint32_t w) { return {worker_id{w}, {}, stage}; }
  [[nodiscard]] version_index version(std::uint32_t w) const {
    if (!plan_.versioned()) return {};
    return shard_.inspect([w](shard_control const& c) { return c.versions().of(worker_id{w}); });
  }
  read_slot const& read(std::uint32_t w, shared_cut cut) {
    (void)shard_.admit(0, {from(w), clocks_[w], staleness::infinite(), std::move(cut)}, slots_[w], released_);
    return slots_[w];
  }

  blueprint plan_;
  shard shard_;
  std::vector<clock_index> clocks_;
  std::vector<read_slot> slots_;
  std::vector<worker_id> released_;
};

// ---- commits of whole tables

constexpr std::uint32_t turns = 4;  // workers that take turns, so that a version gets four updates

enum class between { one_row, replica, replica_counts };

/// Commits of workers that take turns; each reads after its commit, and versions expire in reads.
template <table_spec Table>
void bench_commits(benchmark::State& state, rules const& p, Table const& table, between reads) {
  driven_shard server(p, table, turns);
  shared_update const u = whole_update(million);
  std::uint32_t w = 0;
  auto const clock = [&] {
    double const commit = seconds_of([&] { server.commit(w, u); });
    double const read = seconds_of([&] {
      if (reads == between::one_row)
        server.look(w);
      else
        (void)server.pull(w);
    });
    w = (w + 1) % turns;
    return reads == between::replica ? commit : commit + read;
  };
  for (std::uint32_t i = 0; i < 4 * turns; ++i) clock();
  for (auto _ : state) state.SetIterationTime(clock());
}

void add_commits(std::vector<micro_row>& rows) {
  struct kind {
    char const* name;
    between reads;
    char const* aim;
  };
  for (kind const k : {kind{"commit 1M floats", between::one_row, "<= 2.5"},
                       kind{"commit 1M floats, replicas kept", between::replica, "<= 2.5"},
                       kind{"commit+read 1M floats", between::replica_counts, ""}}) {
    std::string const name = k.name;
    benchmark::RegisterBenchmark((name + ", sum").c_str(), [k](benchmark::State& s) {
      bench_commits(s, asp{}, floats{.rows = million}, k.reads);
    })->UseManualTime();
    benchmark::RegisterBenchmark((name + ", revise").c_str(), [k](benchmark::State& s) {
      bench_commits(s, revising, versions_of_floats{{.rows = million}}, k.reads);
    })->UseManualTime();
    rows.push_back({name + ", sum", "", 4e6, "B", ""});
    rows.push_back({name + ", revise", name + ", sum", 4e6, "B", k.aim});
  }
}

// ---- some rows of many

/// Push and commit of `count` of `rows` rows by a lone worker: no two commits share a version, so
/// each is added, weighed and expired. An iteration is one row of these.
template <table_spec Table>
void bench_rows(benchmark::State& state, rules const& p, Table const& table, std::size_t count) {
  std::size_t const commits = million / count / 2;
  std::vector<std::vector<key>> sets;
  for (std::size_t i = 0; i < commits; ++i)
    sets.push_back(scattered_keys(i * count, count, table.rows));
  std::vector<float> const values(count, 1e-3F);
  cluster c{in_process{}, p, table};
  c.run([&](auto& worker) {
    auto const round = [&] {
      for (auto const& keys : sets) {
        worker.push(keys, values);
        worker.commit();
      }
    };
    round();
    for (auto _ : state)
      state.SetIterationTime(seconds_of(round) / static_cast<double>(commits * count));
  });
}

std::string short_number(std::size_t n) {
  if (n % million == 0) return fmt::format("{}M", n / million);
  return n % 1000 == 0 ? fmt::format("{}k", n / 1000) : std::to_string(n);
}

void add_rows_of_many(std::vector<micro_row>& rows) {
  for (bool const revised : {false, true})
    for (std::size_t const count : {std::size_t{100}, std::size_t{10'000}}) {
      std::string first;
      for (std::size_t const d : {std::size_t{10'000}, million, 10 * million}) {
        std::string const name =
            fmt::format("a row of a commit of {} of {}, {}", short_number(count), short_number(d),
                        revised ? "revise" : "sum");
        benchmark::RegisterBenchmark(name.c_str(),
                                     [=](benchmark::State& s) {
                                       if (revised)
                                         bench_rows(s, revising, versions_of_floats{{.rows = d}},
                                                    count);
                                       else
                                         bench_rows(s, asp{}, floats{.rows = d}, count);
                                     })
            ->UseManualTime()
            ->Iterations(1);
        rows.push_back({name, first, 0, "", first.empty() || !revised ? "" : "~ 1"});
        if (first.empty()) first = name;
      }
    }
}

// ---- pulls

/// Time of a read of everything by `reader`, and of the copy that the worker makes of it.
void time_pulls(benchmark::State& state, driven_shard& server, shared_cut const& cut = nullptr) {
  std::vector<float> w(million);
  for (auto _ : state) {
    server.pull(0, cut).state.copy(0, million * sizeof(float),
                                   reinterpret_cast<std::byte*>(w.data()));
    benchmark::DoNotOptimize(w.data());
  }
}

/// The reader has committed `live` times; a worker that has not keeps all of them apart.
void bench_pull(benchmark::State& state, std::size_t live, shared_update const& u) {
  driven_shard server(revising, versions_of_floats{{.rows = million}}, 2);
  for (std::size_t i = 0; i < live; ++i) server.commit(0, u);
  time_pulls(state, server);
}

/// The same, and `above` commits more that may not be folded yet.
void bench_pull_cut(benchmark::State& state, std::size_t live, std::size_t above) {
  driven_shard server(with(revising, stable_cut{}), versions_of_floats{{.rows = million}}, 2);
  shared_update const u = whole_update(million);
  for (std::size_t i = 0; i < live; ++i) server.commit(0, u);
  server.advance();
  for (std::size_t i = 0; i < above; ++i) server.commit(0, u);
  time_pulls(state, server, server.everything());
}

void bench_memcpy(benchmark::State& state, std::size_t n) {
  std::vector<float> from(n, 1.0F), to(n);
  for (auto _ : state) {
    std::copy(from.begin(), from.end(), to.begin());
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
}

void add_pulls(std::vector<micro_row>& rows) {
  using benchmark::RegisterBenchmark;
  for (std::size_t const live : std::array<std::size_t, 4>{0, 1, 4, 8}) {
    std::string const copy = fmt::format("memcpy {} x 1M floats", live + 1);
    std::string const pull = fmt::format("pull 1M floats, {} live versions", live);
    RegisterBenchmark(copy.c_str(),
                      [=](benchmark::State& s) { bench_memcpy(s, (live + 1) * million); });
    RegisterBenchmark(pull.c_str(),
                      [=](benchmark::State& s) { bench_pull(s, live, whole_update(million)); });
    rows.push_back({copy, "", 4e6 * static_cast<double>(live + 1), "B", ""});
    rows.push_back({pull, copy, 0, "", ""});
  }
  for (std::size_t const live : std::array<std::size_t, 3>{1, 4, 8}) {
    std::string const pull = fmt::format("pull 1M floats, {} live versions of 10k rows", live);
    RegisterBenchmark(pull.c_str(), [=](benchmark::State& s) {
      bench_pull(s, live, keyed_update(10'000, million));
    });
    rows.push_back({pull, "pull 1M floats, 0 live versions", 0, "", ""});
  }
  for (std::size_t const above : std::array<std::size_t, 2>{0, 8}) {
    std::string const pull = fmt::format("pull 1M floats, 4 versions, {} above the mark", above);
    RegisterBenchmark(pull.c_str(), [=](benchmark::State& s) { bench_pull_cut(s, 4, above); });
    rows.push_back({pull, "pull 1M floats, 4 live versions", 0, "", ""});
  }
}

}  // namespace

std::vector<micro_row> register_versions() {
  std::vector<micro_row> rows;
  add_commits(rows);
  add_rows_of_many(rows);
  add_pulls(rows);
  return rows;
}

}  // namespace rubato::bench
