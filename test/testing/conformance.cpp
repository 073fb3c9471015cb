// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/testing/conformance.hpp>
//
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <rubato/partition/hash.hpp>
#include <rubato/partition/key_ranges.hpp>
#include <rubato/partition/on_servers.hpp>
#include <rubato/partition/range.hpp>
#include <rubato/partition/range_hash.hpp>
#include <rubato/protocol/adaptive_period.hpp>
#include <rubato/protocol/admission.hpp>
#include <rubato/protocol/adam.hpp>
#include <rubato/protocol/async_diloco.hpp>
#include <rubato/protocol/commit_rate.hpp>
#include <rubato/protocol/dc_asgd.hpp>
#include <rubato/protocol/easgd.hpp>
#include <rubato/protocol/merge.hpp>
#include <rubato/protocol/nesterov.hpp>
#include <rubato/protocol/pace.hpp>
#include <rubato/protocol/visibility.hpp>
#include <rubato/storage/bfloat16.hpp>
#include <rubato/storage/int8_blocks.hpp>
#include <span>
#include <string>
#include <vector>

#include "testing/says.hpp"

using namespace rubato;
using test::says;
using testing::sentences;

namespace {

/// An admission policy whose answers a test may bend.
struct bent {
  staleness s = 2;
  std::int64_t need_by = 0;
  std::int64_t cache_by = 0;
  bool falls = false;
  bool rises = false;

  [[nodiscard]] staleness bound() const noexcept { return s; }
  [[nodiscard]] clock_index need(clock_index c, staleness read) const noexcept {
    if (falls && c.value() == 10) return clock_index{5};
    if (rises && read == s) return c;
    return clock_index{(c - std::min(read, s)).value() + need_by};
  }
  [[nodiscard]] clock_index cache_need(clock_index c, staleness read) const noexcept {
    return clock_index{(c - std::min(read, s)).value() + cache_by};
  }
};
static_assert(admission_policy<bent>);

struct asked_twice {
  [[nodiscard]] staleness bound() const noexcept { return 1; }
  [[nodiscard]] clock_index need(clock_index c, staleness) const noexcept {
    return ++*calls % 2 == 0 ? c : c - staleness{1};
  }
  [[nodiscard]] clock_index cache_need(clock_index c, staleness) const noexcept { return c; }
  std::shared_ptr<int> calls = std::make_shared<int>(0);
};

template <int By, bool Falls = false>
struct bent_horizon {
  static constexpr bool holds_back = true;
  [[nodiscard]] clock_index horizon(fold_window const& w) const noexcept {
    if (Falls) return clock_index{w.c_min.value() + (w.c_min.value() == 3 ? 10 : 0)};
    return clock_index{w.c_min.value() + By};
  }
};

struct weight_of {
  double (*f)(commit_info const&);
  [[nodiscard]] double weight(commit_info const& c) const noexcept { return f(c); }
};
struct false_sum {
  static constexpr bool exact = true;
  [[nodiscard]] double weight(commit_info const&) const noexcept { return 0.5; }
};
struct counting_merge {
  std::shared_ptr<int> calls = std::make_shared<int>(0);
  [[nodiscard]] double weight(commit_info const&) const noexcept { return ++*calls; }
};

struct in_no_bytes : bfloat16 {
  static std::size_t bytes(std::size_t) noexcept { return 0; }
};

/// Writes tenths, and reads seven hundredths for each.
struct by_tenths {
  static std::size_t bytes(std::size_t n) noexcept { return n; }
  static void encode(std::span<float const> values, std::span<std::byte> to) noexcept {
    for (std::size_t i = 0; i < values.size(); ++i)
      to[i] = static_cast<std::byte>(std::isfinite(values[i]) && std::abs(values[i]) < 10
                                         ? static_cast<int>(values[i] * 10) & 127
                                         : 0);
  }
  static void decode(std::span<std::byte const> from, std::span<float> to) noexcept {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = 0.07F * static_cast<float>(from[i]);
  }
};

struct one_too_far : bfloat16 {
  static void encode(std::span<float const> values, std::span<std::byte> to) noexcept {
    bfloat16::encode(values, to);
    *(to.data() + to.size()) = std::byte{1};
  }
};

/// Counts values in 12 bits.
struct short_of_breath : bfloat16 {
  static void decode(std::span<std::byte const> bytes, std::span<float> values) noexcept {
    std::size_t const n = values.size() % 4096;
    bfloat16::decode(bytes.first(n * 2), values.first(n));
    std::ranges::fill(values.subspan(n), 0.F);
  }
};

struct never_the_same : bfloat16 {
  void encode(std::span<float const> values, std::span<std::byte> to) const noexcept {
    bfloat16::encode(values, to);
    to[0] ^= static_cast<std::byte>(++*calls % 2);
  }
  std::shared_ptr<int> calls = std::make_shared<int>(0);
};

struct never_zero : bfloat16 {
  static void decode(std::span<std::byte const> from, std::span<float> to) noexcept {
    bfloat16::decode(from, to);
    for (float& x : to) x = x == 0 ? 1 : x;
  }
};

}  // namespace

TEST_CASE("check_admission accepts what is shipped", "[testing]") {
  CHECK(testing::check_admission(barrier{}) == sentences{});
  CHECK(testing::check_admission(unbounded{}) == sentences{});
  CHECK(testing::check_admission(bounded_staleness{0}) == sentences{});
  CHECK(testing::check_admission(bounded_staleness{3}) == sentences{});
  CHECK(testing::check_admission(bounded_staleness{staleness::infinite()}) == sentences{});
  CHECK(testing::check_admission(bent{}) == sentences{});
}

TEST_CASE("check_admission catches each broken rule", "[testing]") {
  CHECK(says(testing::check_admission(bent{.need_by = 1}), "wait for itself"));
  CHECK(says(testing::check_admission(bent{.need_by = -1}), "staler than it asked for"));
  CHECK(says(testing::check_admission(bent{.cache_by = -1}), "cached copy is staler"));
  CHECK(says(testing::check_admission(bent{.falls = true}), "falls as the clock grows"));
  CHECK(says(testing::check_admission(bent{.rises = true}), "rises as more staleness"));
  CHECK(says(testing::check_admission(asked_twice{}), "when asked twice"));
}

namespace {
/// Has no bound where it is made so, and says so first.
struct bounded_by_a_check : bounded_staleness {
  std::int64_t s = -1;
  void check() const {
    if (s < 0) throw option_error("bounded_by_a_check: s is below 0");
  }
  [[nodiscard]] staleness bound() const noexcept { return staleness{s}; }
};
}  // namespace

TEST_CASE("check_admission asks nothing of a policy that refuses its options", "[testing]") {
  CHECK(testing::check_admission(bounded_by_a_check{bounded_staleness{3}}) ==
        testing::sentences{"bounded_by_a_check: s is below 0"});
}

TEST_CASE("check_visibility", "[testing]") {
  CHECK(testing::check_visibility(eager{}) == sentences{});
  CHECK(testing::check_visibility(strict{}) == sentences{});
  CHECK(testing::check_visibility(bent_horizon<0>{}) == sentences{});
  CHECK(says(testing::check_visibility(bent_horizon<-1>{}), "SSP-1"));
  CHECK(says(testing::check_visibility(bent_horizon<0, true>{}), "falls as c_min grows"));
}

TEST_CASE("check_merge", "[testing]") {
  CHECK(testing::check_merge(sum{}) == sentences{});
  CHECK(testing::check_merge(average{}) == sentences{});
  CHECK(testing::check_merge(scale{}) == sentences{});
  CHECK(testing::check_merge(scale{.lambda = 0.1}) == sentences{});
  CHECK(testing::check_merge(momentum{}) == sentences{});
  CHECK(testing::check_merge(adam{}) == sentences{});
  CHECK(testing::check_merge(adagrad{}) == sentences{});
  CHECK(testing::check_merge(yogi{}) == sentences{});
  CHECK(testing::check_merge(nesterov{}) == sentences{});
  CHECK(testing::check_merge(delayed_nesterov{}) == sentences{});
  CHECK(testing::check_merge(compensate{}) == sentences{});
  CHECK(testing::check_merge(compensate_adaptive{}) == sentences{});
  CHECK(testing::check_merge(elastic{}) == sentences{});
  // 0/0 for the slowest worker: what a staleness weight looks like before it is tested.
  CHECK(says(testing::check_merge(weight_of{[](commit_info const& c) {
               return 1.0 / static_cast<double>(distance(c.c_min, c.stamp));
             }}),
             "finite"));
  CHECK(says(testing::check_merge(false_sum{}), "says that it is exact"));
  CHECK(says(testing::check_merge(counting_merge{}), "shards would not agree"));
  CHECK(says(testing::check_merge(momentum{.mu = std::numeric_limits<double>::quiet_NaN()}), "momentum: mu is"));
}

namespace {
enum class broken { infinite, remembers, moves_by_itself, begins_nowhere };

template <broken How>
struct broken_step {
  static constexpr std::size_t slots = 1;
  static constexpr bool lazy = How == broken::moves_by_itself;
  std::shared_ptr<int> calls = std::make_shared<int>(0);

  [[nodiscard]] double weight(commit_info const&) const noexcept { return 1; }
  [[nodiscard]] double initial(std::size_t) const noexcept {
    return How == broken::begins_nowhere ? std::numeric_limits<double>::quiet_NaN() : 0;
  }
  template <std::floating_point T>
  [[nodiscard]] T step(fold_step at, T, T d, T& sum) const noexcept {
    if (How == broken::infinite && at.number == 20) return std::numeric_limits<T>::infinity();
    if (How == broken::remembers) return d + static_cast<T>(++*calls);
    if (How == broken::moves_by_itself) return d + 1;
    return sum += d;
  }
};
}  // namespace

TEST_CASE("check_merge: a merge by element is finite, has no state of its own, and moves nothing without an update if "
          "it is lazy", "[testing]") {
  CHECK(says(testing::check_merge(broken_step<broken::infinite>{}), "is not finite"));
  CHECK(says(testing::check_merge(broken_step<broken::remembers>{}), "depend on nothing but"));
  CHECK(says(testing::check_merge(broken_step<broken::moves_by_itself>{}), "leaves rows without an update alone"));
  CHECK(says(testing::check_merge(broken_step<broken::begins_nowhere>{}), "slot 0 begins with nan"));
}

namespace {
struct fickle_pace {
  commit_due due(pace_point) const noexcept {
    static std::int64_t asked = 0;
    return {.steps = 1 + ++asked % 2};
  }
};
struct pace_that_forgets_a_worker {
  commit_due due(pace_point p) const noexcept { return {.steps = p.worker == worker_id{5} ? 0 : 1}; }
};
}  // namespace

TEST_CASE("check_pace", "[testing]") {
  CHECK(testing::check_pace(every_step{}) == sentences{});
  CHECK(testing::check_pace(every{7}) == sentences{});
  CHECK(says(testing::check_pace(every{0}), "expected 1 or more"));
  CHECK(says(testing::check_pace(fickle_pace{}), "answers differently when asked twice"));
  CHECK(says(testing::check_pace(pace_that_forgets_a_worker{}), "of worker 5 is due after 0 steps"));
}

namespace {

/// Never lets go of whoever joined, nor of the time at which it was to be called.
struct clinging_conductor {
  struct order_type {};
  void join(worker_id w, clock_index, time_point, pace_orders<order_type>&) { known.push_back(w); }
  void leave(worker_id) {}
  void commit(worker_id, clock_index, time_point) {}
  void observe(time_point, double) {}
  void tick(time_point t, pace_orders<order_type>& out) {
    if (moves_on) next = t + std::chrono::seconds(1);
    for (worker_id const w : known) out.push_back({w, {}});
  }
  [[nodiscard]] time_point next_tick() const noexcept { return next; }
  [[nodiscard]] time_point next_sample() const noexcept { return time_point::max(); }
  [[nodiscard]] std::span<pace_change const> changes() const noexcept { return {}; }

  bool moves_on;
  time_point next{};
  std::vector<worker_id> known{};
};

/// Wants one and the same loss again and again.
struct forgetful_conductor : clinging_conductor {
  [[nodiscard]] time_point next_sample() const noexcept { return time_point{}; }
};

}  // namespace

TEST_CASE("check_conductor", "[testing]") {
  CHECK(testing::check_pace(commit_rate{}) == sentences{});
  CHECK(testing::check_pace(adaptive_period{}) == sentences{});
  CHECK(says(testing::check_conductor(clinging_conductor{.moves_on = true}), "who is not there"));
  CHECK(says(testing::check_conductor(clinging_conductor{.moves_on = false}),
             "at a time that is past"));
  CHECK(says(testing::check_conductor(forgetful_conductor{{.moves_on = true}}), "wants a loss that it has been told"));
}

TEST_CASE("check_partition", "[testing]") {
  CHECK(testing::check_partition(range{}) == sentences{});
  CHECK(testing::check_partition(hash{}) == sentences{});
  CHECK(testing::check_partition(range_hash{}) == sentences{});
  CHECK(testing::check_partition(testing::scattered{3}) == sentences{});
  struct beyond {
    server_id server_of(key k, table_shape shape) const {
      return server_id{static_cast<std::uint32_t>(k.value() % (shape.servers + 1))};
    }
  };
  CHECK(says(testing::check_partition(beyond{}), "expected one below"));
  struct restless {
    std::shared_ptr<std::uint32_t> calls = std::make_shared<std::uint32_t>(0);
    server_id server_of(key, table_shape shape) const {
      return server_id{++*calls % shape.servers};
    }
  };
  CHECK(says(testing::check_partition(restless{}), "depend on nothing else"));
}

namespace {

/// Runs of 10 keys, of which `run_end` says what a test wants.
struct tens {
  std::uint64_t (*end)(std::uint64_t k);
  server_id server_of(key k, table_shape shape) const {
    return server_id{static_cast<std::uint32_t>(k.value() / 10 % shape.servers)};
  }
  std::uint64_t run_end(key k, table_shape) const { return end(k.value()); }
};

}  // namespace

TEST_CASE("check_partition: runs, shapes that are refused, digests", "[testing]") {
  CHECK(testing::check_partition(tens{[](std::uint64_t k) { return k / 10 * 10 + 10; }}) == sentences{});
  CHECK(testing::check_partition(tens{[](std::uint64_t k) { return k + 1; }}) == sentences{});
  CHECK(says(testing::check_partition(tens{[](std::uint64_t k) { return k / 10 * 10 + 11; }}),
             "is not on that server"));
  CHECK(says(testing::check_partition(tens{[](std::uint64_t k) { return k / 10 * 10; }}), "expected above the key"));

  CHECK(testing::check_partition(on_servers{{1, 3}}) == sentences{});  // those who have them
  CHECK(testing::check_partition(key_ranges{{0, 500}}) == sentences{});
  CHECK(says(testing::check_partition(key_ranges{{0, 5, 500, 600}}), "it refuses tables of each of 30 shapes"));
  CHECK(testing::check_partition(key_ranges{{0, 5, 500, 600}}, {{.rows = 1000, .servers = 4}}) == sentences{});
  struct without_later_keys {
    server_id server_of(key k, table_shape) const {
      if (k.value() > 100) throw option_error("too late");
      return server_id{0};
    }
  };
  CHECK(says(testing::check_partition(without_later_keys{}), "is refused, and key"));
  struct another_each_time {
    std::uint64_t number = 0;
    another_each_time() = default;
    another_each_time(another_each_time const& other) : number(other.number + 1) {}
    another_each_time& operator=(another_each_time const&) = default;
    server_id server_of(key, table_shape) const { return server_id{0}; }
    std::uint64_t digest() const { return number; }
  };
  CHECK(says(testing::check_partition(another_each_time{}), "a copy has another digest"));
}

TEST_CASE("check_codec: the library's codecs conform, and what does not is found") {
  CHECK(testing::check_codec(bfloat16{}).empty());
  CHECK(testing::check_codec(int8_blocks{}).empty());
  CHECK(says(testing::check_codec(in_no_bytes{}), "take 0 bytes, expected 1 or more"));
  CHECK(says(testing::check_codec(by_tenths{}), "expected the same bits"));
  CHECK(says(testing::check_codec(one_too_far{}), "encode writes beyond"));
  CHECK(says(testing::check_codec(never_the_same{}), "something else when it is asked twice"));
  CHECK(says(testing::check_codec(short_of_breath{}), "4096 values of 0.75 do not all come back with their sign"));
  CHECK(says(testing::check_codec(never_zero{}), "zeros come back as something else"));
}
