// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Topics sampled by threads that share counts, beside a sampler without tables.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/micro/table.hpp"
#include "rubato/algorithm/lda.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/core/random.hpp"
#include "rubato/protocol/ssp.hpp"
#include "rubato/transport/in_process.hpp"

namespace rubato::bench {
namespace {

constexpr std::size_t topics = 100;
constexpr std::int64_t sweeps = 10;  // in an iteration

data::bag_of_words const& documents() {
  static data::bag_of_words const all =
      data::make_synthetic_documents({.documents = 1000, .words = 2000, .topics = 20, .length = 100}).documents;
  return all;
}

/// Collapsed Gibbs sampling as one would write it for one thread.
class plain_sampler {
 public:
  explicit plain_sampler(data::bag_of_words const& all)
      : words_(all.words() * topics), totals_(topics), in_document_(topics), sums_(topics), inverse_(topics),
        beta_sum_(beta * static_cast<double>(all.words())) {
    for (std::size_t d = 0; d < all.documents(); ++d) {
      for (auto const& e : all.of_document(d))
        for (std::uint32_t n = 0; n < e.count; ++n) {
          tokens_.push_back({e.word, static_cast<std::uint32_t>(random_.below(topics))});
          ++words_[e.word * topics + tokens_.back().topic];
          ++totals_[tokens_.back().topic];
        }
      ends_.push_back(tokens_.size());
    }
    for (std::size_t k = 0; k < topics; ++k) count_total(k, 0);
  }

  void sweep() {
    std::size_t first = 0;
    for (std::size_t const end : ends_) {
      std::fill(in_document_.begin(), in_document_.end(), 0);
      for (std::size_t i = first; i < end; ++i) ++in_document_[tokens_[i].topic];
      for (; first < end; ++first) draw(tokens_[first]);
    }
  }

 private:
  static constexpr double alpha = 0.1, beta = 0.01;
  struct token {
    std::uint32_t word, topic;
  };

  void count_total(std::size_t topic, std::int64_t by) {
    totals_[topic] += by;
    inverse_[topic] = 1 / (static_cast<double>(totals_[topic]) + beta_sum_);
  }
  void count(std::int32_t* word, std::size_t topic, std::int32_t by) {
    word[topic] += by;
    in_document_[topic] += by;
    count_total(topic, by);
  }
  void draw(token& t) {
    std::int32_t* const word = words_.data() + t.word * topics;
    count(word, t.topic, -1);
    double sum = 0;
    for (std::size_t k = 0; k < topics; ++k)
      sums_[k] = sum += (in_document_[k] + alpha) * (word[k] + beta) * inverse_[k];
    auto const at = std::upper_bound(sums_.begin(), sums_.end() - 1, random_.uniform() * sum);
    t.topic = static_cast<std::uint32_t>(at - sums_.begin());
    count(word, t.topic, 1);
  }

  random_stream random_{1};
  std::vector<token> tokens_;
  std::vector<std::size_t> ends_;  ///< of documents
  std::vector<std::int32_t> words_;
  std::vector<std::int64_t> totals_;
  std::vector<std::int32_t> in_document_;
  std::vector<double> sums_, inverse_;
  double beta_sum_;
};

void bench_plain(benchmark::State& state) {
  plain_sampler sampler(documents());
  sampler.sweep();
  for (auto _ : state)
    for (std::int64_t s = 0; s < sweeps; ++s) sampler.sweep();
}

void bench_threads(benchmark::State& state, std::uint32_t threads) {
  algorithm::lda_state topics_of_tokens(documents(), {.topics = topics, .sweeps = sweeps, .batch = 1});
  cluster c{in_process{.workers = threads}, ssp{.staleness = 1}, algorithm::lda_word_table(topics_of_tokens),
            algorithm::lda_total_table(topics_of_tokens)};
  auto const run = [&] { c.run([&](auto& worker) { algorithm::lda(worker, topics_of_tokens); }); };
  run();
  for (auto _ : state) run();
}

}  // namespace

std::vector<micro_row> register_topics() {
  using benchmark::RegisterBenchmark;
  RegisterBenchmark("lda, 100 topics, plain loop", bench_plain)->UseRealTime();
  RegisterBenchmark("lda, 100 topics, 1 worker", bench_threads, 1)->UseRealTime();
  RegisterBenchmark("lda, 100 topics, 2 workers", bench_threads, 2)->UseRealTime();
  double const tokens = static_cast<double>(documents().tokens() * sweeps);
  return {{"lda, 100 topics, plain loop", "", tokens, "tokens", ""},
          {"lda, 100 topics, 1 worker", "lda, 100 topics, plain loop", tokens, "tokens", "<= 1/0.7 = 1.43"},
          {"lda, 100 topics, 2 workers", "lda, 100 topics, 1 worker", tokens, "tokens", "<= 1/1.5 = 0.67"}};
}

}  // namespace rubato::bench
