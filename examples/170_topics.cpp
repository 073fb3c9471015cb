// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Topics of documents by collapsed Gibbs sampling: word counts are in tables that all workers add to, each document
// stays with its worker. Synthetic documents, so that what is found can be held against the truth.
//   rubato-launch -n 1 -s 2 -- 170_topics
// samples across processes, too: four workers in one, the counts on two servers.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <numeric>
#include <rubato/algorithm/lda.hpp>
#include <rubato/data/bag_of_words.hpp>
#include <rubato/rubato.hpp>
#include <rubato/transport/tcp.hpp>
#include <span>
#include <vector>

namespace rb = rubato;
namespace ra = rubato::algorithm;

constexpr std::size_t topics = 5, words = 200, shown = 5;
rb::data::synthetic_documents const made =
    rb::data::make_synthetic_documents({.documents = 500, .words = words, .topics = topics, .length = 80});

/// The words that weigh most in the first topic, by a weight for each word.
template <class Weight>
void print_top_words(char const* what, Weight weight) {
  std::array<std::size_t, words> order;
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), weight);
  std::printf("%s:", what);
  for (std::size_t const w : std::span(order).first(shown)) std::printf(" %zu", w);
  std::printf("\n");
}

/// The topic that was found in which the true first topic's top word is most at home.
std::size_t first_topic(std::vector<std::int32_t> const& counts) {
  auto const top = std::max_element(made.topics.begin(), made.topics.begin() + words) - made.topics.begin();
  auto const row = std::span(counts).subspan(static_cast<std::size_t>(top) * topics, topics);
  return static_cast<std::size_t>(std::ranges::max_element(row) - row.begin());
}

struct findings {
  std::array<double, 3> log_likelihood;  ///< after 4, 8 and 12 sweeps
  std::vector<std::int32_t> counts;
};

template <class Transport>
findings find_topics(Transport const& transport) {
  ra::lda_state state(made.documents, {.topics = topics, .beta = 0.05, .sweeps = 4, .batch = 0.5});
  rb::cluster cluster{transport, rb::bsp{}, ra::lda_word_table(state), ra::lda_total_table(state)};
  findings found{{}, std::vector<std::int32_t>(words * topics)};
  std::vector<std::int64_t> totals(topics);
  for (double& value : found.log_likelihood) {
    cluster.run([&](auto& worker) { ra::lda(worker, state); });  // goes on where the last run has ended
    cluster.run([&](auto& worker) {
      if (worker.rank() != 0) return;
      worker[rb::table<0>].pull(found.counts);
      worker[rb::table<1>].pull(totals);
    });
    value = ra::lda_log_likelihood(state, found.counts, totals);
  }
  return found;
}
void print(char const* where, findings const& found) {
  auto const [a, b, c] = found.log_likelihood;
  std::printf("%s: log-likelihood a token %.3f, %.3f, %.3f\n", where, a, b, c);
  print_top_words("found", [&, k = first_topic(found.counts)](std::size_t w) { return found.counts[w * topics + k]; });
}

int main() {
  auto const across = rb::tcp::from_environment(4);
  if (across.place.as != rb::net::role::worker) return find_topics(across), 0;  // serves
  print_top_words("drawn from", [](std::size_t w) { return made.topics[w]; });
  print("in process", find_topics(rb::in_process{.workers = 4}));
  print("simulated", find_topics(rb::simulated{.workers = 4, .servers = 2}));
  print("across processes", find_topics(across));
}
