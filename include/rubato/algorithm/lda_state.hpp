// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rubato/algorithm/line_range.hpp"
#include "rubato/algorithm/stage_setting.hpp"
#include "rubato/core/random.hpp"
#include "rubato/data/bag_of_words.hpp"

namespace rubato::algorithm {

/// Latent Dirichlet allocation by collapsed Gibbs sampling: the model, and how its topics are sampled.
struct lda_options {
  std::size_t topics = 10;   ///< K, at least 1
  double alpha = 0.1;        ///< of the Dirichlet prior of a document's topics; above 0
  double beta = 0.01;        ///< of the Dirichlet prior of a topic's words; above 0
  std::int64_t sweeps = 10;  ///< how often a run samples every token; at least 1
  /// Share of a worker's documents that it samples in a clock: 1 is a sweep per clock, 0.1 ten clocks per sweep, the
  /// "full batch" and "10% minibatch" of 001 §5. From 1e-4 to 1
  double batch = 1.0;
  std::uint64_t seed = 1;    ///< of all draws

  /// Clocks in which a worker samples all of its documents once.
  [[nodiscard]] std::uint32_t clocks_per_sweep() const noexcept {
    return static_cast<std::uint32_t>(std::ceil(1 / batch - 1e-6));  // 1 / 0.1 may be above 10
  }

  /// @throws option_error naming the option and what was expected
  void check() const {
    auto const is_positive = [](double x) { return x > 0 && std::isfinite(x); };
    detail::expect(topics >= 1 && topics <= topics_max, "lda: topics must be from 1 to 2^24");
    detail::expect(is_positive(alpha), "lda: alpha must be finite and above 0");
    detail::expect(is_positive(beta), "lda: beta must be finite and above 0");
    detail::expect(sweeps >= 1, "lda: sweeps must be at least 1");
    detail::expect(batch >= 1e-4 && batch <= 1, "lda: batch must be from 1e-4 to 1");
  }
  static constexpr std::size_t topics_max = std::size_t{1} << 24;  ///< the greatest number of topics
};

/// What stays with the documents: the topic of every token, from which a document's counts n_dk follow. The caller
/// owns it, and it outlives runs: one more run with it goes on where the last one ended.
///
/// One object serves all workers of a process without a lock, as each touches its own documents only. Over TCP every
/// process makes one, in which the documents of other processes' workers stay without topics; all runs must then
/// have the same workers. It belongs to the tables that were filled by it: after a run that did not end well, whose
/// last updates may not be in there, make both anew.
/// Memory: 4 bytes a token, 12 a document.
class lda_state {
 public:
  /// @throws option_error as `lda_options::check`, and for more tokens than a count of 32 bits holds
  lda_state(data::bag_of_words documents, lda_options const& options)
      : documents_(std::move(documents)), options_(options), first_(documents_.documents() + 1),
        sweeps_(documents_.documents()) {
    options_.check();
    detail::expect(documents_.tokens() <= std::numeric_limits<std::int32_t>::max(),
                   "lda: " + std::to_string(documents_.tokens()) + " tokens, expected at most 2^31 - 1");
    for (std::size_t d = 0; d < documents_.documents(); ++d) {
      first_[d + 1] = first_[d];
      for (auto const& e : documents_.of_document(d)) first_[d + 1] += e.count;
    }
    topics_.resize(first_.back());
  }

  /// The documents whose topics it holds.
  [[nodiscard]] data::bag_of_words const& documents() const noexcept { return documents_; }
  /// The options that it was made with.
  [[nodiscard]] lda_options const& options() const noexcept { return options_; }

  /// The topic of each token of a document, in the order of its words; of no meaning before it has any.
  [[nodiscard]] std::span<std::uint32_t> topics_of(std::size_t document) noexcept {
    return std::span(topics_).subspan(first_[document], first_[document + 1] - first_[document]);
  }
  /// The same, for reading.
  [[nodiscard]] std::span<std::uint32_t const> topics_of(std::size_t document) const noexcept {
    return std::span(topics_).subspan(first_[document], first_[document + 1] - first_[document]);
  }
  /// n_dk: how many of a document's tokens are of each topic; zeros before they have any. O(topics + tokens).
  void count_topics(std::size_t document, std::span<std::int32_t> counts) const noexcept {
    std::fill(counts.begin(), counts.end(), 0);
    if (!has_topics(document)) return;
    for (std::uint32_t const k : topics_of(document)) ++counts[k];
  }

  /// Whether the document's tokens have topics.
  [[nodiscard]] bool has_topics(std::size_t document) const noexcept { return sweeps_[document] != 0; }
  /// The stream of the draws that give the document's tokens new topics: of its own for each document and sweep,
  /// so that it does not matter whose document it is. The first one is of the topics that tokens begin with.
  [[nodiscard]] random_stream next_sweep(std::size_t document) noexcept {
    return random_stream(options_.seed, document, sweeps_[document]++);
  }

  /// Takes over what some documents' tokens are of in another state: one that others still change, say, while this
  /// one is looked at. @pre it is of the same documents, and nobody changes those meanwhile. O(tokens)
  void take_over(lda_state const& other, line_range documents) {
    std::size_t const first = first_[documents.first], last = first_[documents.last];
    std::copy_n(other.topics_.data() + first, last - first, topics_.data() + first);
    std::copy_n(other.sweeps_.data() + documents.first, documents.last - documents.first,
                sweeps_.data() + documents.first);
  }

 private:
  data::bag_of_words documents_;
  lda_options options_;
  std::vector<std::size_t> first_;      ///< of a document's tokens; one more than there are documents
  std::vector<std::uint32_t> sweeps_;   ///< by document: how often its tokens have been given topics
  std::vector<std::uint32_t> topics_;   ///< by token
};

}  // namespace rubato::algorithm
