// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/algorithm/lda.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/core/random.hpp>
#include <rubato/data/bag_of_words.hpp>
#include <rubato/rubato.hpp>

#include "algorithm/algorithms.hpp"
#include "data/real_data.hpp"
#include "seeds.hpp"

namespace rb = rubato;
namespace ra = rubato::algorithm;
namespace rd = rubato::data;
using Catch::Contains;

namespace {

struct topic_counts {
  std::vector<std::int32_t> words;
  std::vector<std::int64_t> totals;
  friend bool operator==(topic_counts const&, topic_counts const&) = default;
};

/// What one thread does that knows of no tables, from the text of Griffiths and Steyvers: every count at its place,
/// every probability from its definition.
struct sequential_lda {
  struct token {
    std::uint32_t document, word, topic;
  };

  rd::bag_of_words documents;
  ra::lda_options o;
  std::vector<token> tokens;
  std::vector<std::int32_t> of_document;  // n_dk
  topic_counts counts;

  sequential_lda(rd::bag_of_words const& all, ra::lda_options const& options)
      : documents(all), o(options), of_document(all.documents() * o.topics),
        counts{std::vector<std::int32_t>(all.words() * o.topics), std::vector<std::int64_t>(o.topics)} {
    for (std::uint32_t d = 0; d < all.documents(); ++d) {
      rb::random_stream random(o.seed, d, 0);
      for (auto const& e : all.of_document(d))
        for (std::uint32_t n = 0; n < e.count; ++n) {
          tokens.push_back({d, e.word, static_cast<std::uint32_t>(random.below(o.topics))});
          add(tokens.back(), 1);
        }
    }
  }

  void add(token const& t, std::int32_t by) {
    of_document[t.document * o.topics + t.topic] += by;
    counts.words[t.word * o.topics + t.topic] += by;
    counts.totals[t.topic] += by;
  }

  double weight(token const& t, std::size_t k) const {
    return (of_document[t.document * o.topics + k] + o.alpha) * (counts.words[t.word * o.topics + k] + o.beta) /
           (static_cast<double>(counts.totals[k]) + static_cast<double>(documents.words()) * o.beta);
  }

  void sweep(std::uint64_t number) {  // from 1
    rb::random_stream random(0);
    std::int64_t document = -1;
    for (token& t : tokens) {
      if (document != t.document) random = rb::random_stream(o.seed, t.document, number);
      document = t.document;
      add(t, -1);
      double all = 0;
      for (std::size_t k = 0; k < o.topics; ++k) all += weight(t, k);
      double left = random.uniform() * all;
      t.topic = 0;
      while (t.topic + 1 < o.topics && (left -= weight(t, t.topic)) >= 0) ++t.topic;
      add(t, 1);
    }
  }

  /// Eq. 2 and 3 as they are printed, a token.
  double log_likelihood() const {
    auto const k = static_cast<double>(o.topics), w = static_cast<double>(documents.words());
    double total = k * (std::lgamma(w * o.beta) - w * std::lgamma(o.beta)) +
                   static_cast<double>(documents.documents()) * (std::lgamma(k * o.alpha) - k * std::lgamma(o.alpha));
    for (auto const n : counts.words) total += std::lgamma(n + o.beta);
    for (auto const n : counts.totals) total -= std::lgamma(static_cast<double>(n) + w * o.beta);
    for (auto const n : of_document) total += std::lgamma(n + o.alpha);
    std::vector<double> lengths(documents.documents());
    for (token const& t : tokens) ++lengths[t.document];
    for (double const n : lengths) total -= std::lgamma(n + k * o.alpha);
    return total / static_cast<double>(tokens.size());
  }
};

template <class Transport, class Protocol>
topic_counts sampled(ra::lda_state& state, Transport const& where, Protocol const& protocol, int runs = 1) {
  rb::cluster cluster{where, protocol, ra::lda_word_table(state), ra::lda_total_table(state)};
  for (int i = 0; i < runs; ++i) cluster.run([&](auto& worker) { ra::lda(worker, state); });
  return {cluster.template parameters<0>(), cluster.template parameters<1>()};
}

rd::synthetic_documents few_documents() {
  return rd::make_synthetic_documents({.documents = 60, .words = 80, .topics = 4, .length = 50});
}

/// How the tokens' topics add up.
topic_counts counted(ra::lda_state const& state) {
  auto const& all = state.documents();
  std::size_t const k = state.options().topics;
  topic_counts c{std::vector<std::int32_t>(all.words() * k), std::vector<std::int64_t>(k)};
  for (std::size_t d = 0; d < all.documents(); ++d) {
    auto topic = state.topics_of(d).begin();
    for (auto const& e : all.of_document(d))
      for (std::uint32_t n = 0; n < e.count; ++n, ++topic) ++c.words[e.word * k + *topic], ++c.totals[*topic];
  }
  return c;
}

double log_likelihood(ra::lda_state const& state, topic_counts const& c) {
  return ra::lda_log_likelihood(state, c.words, c.totals);
}

}  // namespace

TEST_CASE("lda: one worker under BSP is the sequential sampler, draw for draw", "[algorithm]") {
  auto const all = few_documents().documents;
  ra::lda_options const o{.topics = 7, .alpha = 0.3, .beta = 0.05, .sweeps = 12, .seed = 5};
  sequential_lda expected(all, o);
  for (std::uint64_t s = 1; s <= 12; ++s) expected.sweep(s);
  ra::lda_state state(all, o);
  auto const got = sampled(state, rb::in_process{}, rb::bsp{});
  CHECK(got == expected.counts);
  CHECK(log_likelihood(state, got) == Approx(expected.log_likelihood()).epsilon(1e-12));
  std::vector<std::int32_t> counts(7);
  state.count_topics(31, counts);
  CHECK(std::ranges::equal(counts, std::span(expected.of_document).subspan(7 * 31, 7)));
  // Ten clocks in a sweep read the same when nobody else writes.
  ra::lda_options parts = o;
  parts.batch = 0.1;
  CHECK(parts.clocks_per_sweep() == 10);
  ra::lda_state in_parts(all, parts);
  CHECK(sampled(in_parts, rb::simulated{}, rb::bsp{}) == expected.counts);
}

TEST_CASE("lda: a run goes on where the last one has ended", "[algorithm]") {
  auto const all = few_documents().documents;
  ra::lda_state once(all, {.topics = 5, .sweeps = 6}), in_three(all, {.topics = 5, .sweeps = 2});
  auto const expected = sampled(once, rb::simulated{.workers = 3}, rb::bsp{});
  CHECK(sampled(in_three, rb::simulated{.workers = 3}, rb::bsp{}, 3) == expected);
}

TEST_CASE("lda: counts are those of the tokens' topics, to the last one, under every protocol", "[algorithm]") {
  auto const all = few_documents().documents;
  auto const batch = GENERATE(1.0, 0.3, 0.001);  // the last one: clocks without documents
  auto const workers = GENERATE(1U, 4U);
  INFO("batch " << batch << ", " << workers << " workers");
  auto const check = [&](auto const& where, auto const& protocol) {
    ra::lda_state state(all, {.topics = 6, .sweeps = 3, .batch = batch});
    auto const got = sampled(state, where, protocol);
    CHECK(got == counted(state));
    CHECK(std::accumulate(got.totals.begin(), got.totals.end(), std::int64_t{0}) == 60 * 50);
    CHECK(*std::ranges::min_element(got.words) == 0);
  };
  auto const everywhere = [&](auto const& protocol) {
    check(rb::in_process{.workers = workers, .servers = 2}, protocol);
    check(rb::simulated{.workers = workers, .servers = 2}, protocol);
  };
  everywhere(rb::bsp{});
  everywhere(rb::ssp{.staleness = 2});
  everywhere(rb::asp{});
}

TEST_CASE("lda: under BSP the same counts in process and simulated", "[algorithm]") {
  auto const all = few_documents().documents;
  ra::lda_options const o{.topics = 5, .sweeps = 4, .batch = 0.5};
  ra::lda_state here(all, o), there(all, o);
  CHECK(sampled(here, rb::in_process{.workers = 4}, rb::bsp{}) ==
        sampled(there, rb::simulated{.workers = 4, .servers = 3}, rb::bsp{}));
}

TEST_CASE("lda: nobody reads a count below zero while others sample", "[algorithm]") {
  auto const all = few_documents().documents;
  auto const read = [&](auto const& where) {
    ra::lda_state state(all, {.topics = 3, .sweeps = 30, .batch = 0.2});
    rb::cluster cluster{where, rb::asp{}, ra::lda_word_table(state), ra::lda_total_table(state)};
    std::vector<std::int32_t> words(80 * 3), least;
    cluster.run([&](auto& worker) {
      if (worker.rank() != 3) return ra::lda(worker, state);
      auto const none_yet = [&] { return std::ranges::count(words, 0) == std::ssize(words); };
      for (int i = 0; i < 100 || none_yet(); ++i) {  // in threads this worker may be the first by far
        worker.pull(words);
        least.push_back(*std::ranges::min_element(words));
        worker.step(100);
      }
    });
    CHECK(*std::ranges::min_element(least) == 0);
  };
  read(rb::in_process{.workers = 4, .servers = 2});
  read(rb::simulated{.workers = 4, .servers = 2});
}

TEST_CASE("lda: a count below zero is zero in a probability, and stays as it is in the table", "[algorithm]") {
  rd::bag_of_words const all(1, 2, {{0, 0, 200}});
  ra::lda_state state(all, {.topics = 2, .alpha = 1, .beta = 50, .sweeps = 1});
  std::vector<std::int32_t> const damaged{0, -100'000, 0, 0};
  auto table = ra::lda_word_table(state);
  table.init = damaged;
  rb::cluster cluster{rb::in_process{}, rb::bsp{}, table, ra::lda_total_table(state)};
  cluster.run([&](auto& worker) { ra::lda(worker, state); });
  auto const& words = cluster.parameters<0>();
  CHECK(words[0] + words[1] == 200 - 100'000);
  CHECK(words[1] > -99'990);  // about a quarter of the tokens are of that topic, not none
  CHECK(words[1] < -99'810);
}

TEST_CASE("lda: the topics that documents were drawn from are found", "[algorithm][numeric]") {
  auto const made = rd::make_synthetic_documents(
      {.documents = 400, .words = 100, .topics = 5, .length = 80, .alpha = 0.1, .beta = 0.1});
  ra::lda_state state(made.documents, {.topics = 5, .beta = 0.1, .sweeps = 80, .batch = 0.5, .seed = 3});
  auto const got = sampled(state, rb::simulated{.workers = 4, .servers = 2}, rb::ssp{.staleness = 2});
  for (std::size_t truth = 0; truth < 5; ++truth) {
    double least = 2;  // the least distance in total variation from one that was found, twice
    for (std::size_t k = 0; k < 5; ++k) {
      double apart = 0;
      for (std::size_t w = 0; w < 100; ++w)
        apart += std::abs(made.topics[truth * 100 + w] -
                          (got.words[w * 5 + k] + 0.1) / (static_cast<double>(got.totals[k]) + 10));
      least = std::min(least, apart);
    }
    INFO("topic " << truth);
    CHECK(least < 0.2);
  }
}

TEST_CASE("lda: on real documents four workers under SSP come as far as the sequential sampler", "[algorithm]") {
  if (rb::test::sanitized()) {  // others run the same code
    WARN("left out under a sanitizer, for the time it takes");
    return;
  }
  auto const path = rubato_test::real_data("docword.kos.txt.gz");
  if (!path) return;
  auto const whole = rd::read_bag_of_words(*path);
  std::vector<rd::word_count> some;  // a quarter of the documents, for a test of a few seconds
  for (std::uint32_t d = 0; d < 850; ++d)
    for (auto const& e : whole.of_document(d)) some.push_back({d, e.word, e.count});
  rd::bag_of_words const all(850, whole.words(), some);
  ra::lda_options const o{.topics = 20, .sweeps = 40, .batch = 0.1};
  sequential_lda reference(all, o);
  for (std::uint64_t s = 1; s <= 40; ++s) reference.sweep(s);
  double const expected = reference.log_likelihood();
  for (int const s : {1, 2, 3}) {
    ra::lda_state state(all, o);
    auto const got = sampled(state, rb::simulated{.workers = 4, .servers = 2}, rb::ssp{.staleness = s});
    INFO("staleness " << s << ", expected " << expected << ", got " << log_likelihood(state, got));
    CHECK(std::abs(log_likelihood(state, got) - expected) < 0.01 * std::abs(expected));
  }
  ra::lda_state untrained(all, {.topics = 20, .sweeps = 1});
  auto const first = sampled(untrained, rb::simulated{}, rb::bsp{});
  CHECK(log_likelihood(untrained, first) < 1.05 * expected);  // 1% is much less than what sampling gains
}

TEST_CASE("lda: a state takes over from another what it is told to, and nothing else", "[algorithm]") {
  ra::lda_options const o{.topics = 4, .sweeps = 2};
  ra::lda_state trained(few_documents().documents, o), looked_at(few_documents().documents, o);
  sampled(trained, rb::simulated{.workers = 2}, rb::bsp{});
  looked_at.take_over(trained, {10, 30});
  for (std::size_t d = 0; d < 60; ++d) {
    INFO(d);
    bool const taken = d >= 10 && d < 30;
    CHECK(looked_at.has_topics(d) == taken);
    if (taken) CHECK(std::ranges::equal(std::as_const(looked_at).topics_of(d), std::as_const(trained).topics_of(d)));
  }
}

TEST_CASE("lda: a worker that joins is refused, as its documents are others' already", "[algorithm]") {
  ra::lda_state state(few_documents().documents, {.topics = 4, .sweeps = 2});
  CHECK_THROWS_WITH(sampled(state, rb::test::with_joiner(), rb::bsp{}), Contains("lda: worker 4 has joined"));
}

TEST_CASE("lda: options that cannot be meant are refused", "[algorithm]") {
  auto const made = [](ra::lda_options const& o) { ra::lda_state(few_documents().documents, o); };
  CHECK_THROWS_WITH(made({.topics = 0}), Contains("topics must be from 1 to 2^24"));
  CHECK_THROWS_WITH(made({.alpha = 0}), Contains("alpha must be finite and above 0"));
  CHECK_THROWS_WITH(made({.beta = std::nan("")}), Contains("beta must be finite and above 0"));
  CHECK_THROWS_WITH(made({.sweeps = 0}), Contains("sweeps must be at least 1"));
  CHECK_THROWS_WITH(made({.batch = 0}), Contains("batch must be from 1e-4 to 1"));
  CHECK_THROWS_WITH(made({.batch = 1.5}), Contains("batch must be from 1e-4 to 1"));
  std::vector<rd::word_count> many;
  for (std::uint32_t w = 0; w < 2148; ++w) many.push_back({0, w, 1'000'000});
  CHECK_THROWS_WITH(ra::lda_state(rd::bag_of_words(1, 2148, many), {}),
                    Contains("2148000000 tokens, expected at most"));
  CHECK_THROWS_AS(made({.topics = 0}), rb::option_error);
}
