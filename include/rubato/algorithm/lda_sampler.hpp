// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rubato/algorithm/lda_state.hpp"
#include "rubato/algorithm/line_range.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/core/random.hpp"
#include "rubato/data/bag_of_words.hpp"

namespace rubato::algorithm {

/// Documents that a worker samples in one clock, and the rows of the word-topic table that it needs for them.
struct lda_batch {
  line_range documents;  ///< the documents that are sampled
  std::vector<key> words;           ///< that occur in them, ascending
  std::vector<std::uint32_t> rows;  ///< for each entry of each document, in order: its place in `words`
  std::uint64_t tokens = 0;  ///< words of these documents, each as often as it occurs

  /// Lists what the documents numbered `which` of `all` need. O(entries log entries).
  lda_batch(data::bag_of_words const& all, line_range which) : documents(which) {
    for (std::size_t d = which.first; d < which.last; ++d)
      for (auto const& e : all.of_document(d)) words.emplace_back(e.word), tokens += e.count;
    rows.reserve(words.size());
    std::ranges::sort(words);
    words.erase(std::unique(words.begin(), words.end()), words.end());
    for (std::size_t d = which.first; d < which.last; ++d)
      for (auto const& e : all.of_document(d))
        rows.push_back(static_cast<std::uint32_t>(std::ranges::lower_bound(words, key{e.word}) - words.begin()));
  }
};

/// A worker's copy of the counts that a batch needs, and the changes that sampling makes to them. Neither knows of
/// tables. Belongs to one thread.
class lda_sampler {
 public:
  /// The state must outlive this.
  explicit lda_sampler(lda_state& state)
      : state_(state), k_(state.options().topics), alpha_(state.options().alpha), beta_(state.options().beta),
        beta_sum_(beta_ * static_cast<double>(state.documents().words())), totals_(k_), total_changes_(k_),
        in_document_(k_), factors_(k_), sums_(k_) {}

  /// n_kw, to be filled in after `begin`: K counts for each of the batch's words.
  [[nodiscard]] std::span<std::int32_t> words() noexcept { return words_; }
  /// n_k, to be filled in.
  [[nodiscard]] std::span<std::int64_t> totals() noexcept { return totals_; }
  /// What has been added to them since `begin`.
  [[nodiscard]] std::span<std::int32_t const> word_changes() const noexcept { return word_changes_; }
  /// What has been added to `totals` since `begin`.
  [[nodiscard]] std::span<std::int64_t const> total_changes() const noexcept { return total_changes_; }

  /// Makes room for the counts of a batch; there are no changes.
  void begin(lda_batch const& batch) {
    words_.resize(batch.words.size() * k_);
    word_changes_.assign(words_.size(), 0);
    total_changes_.assign(k_, 0);
  }

  /// Gives the tokens of documents that have no topics one each, all with the same probability. Returns how many.
  std::uint64_t start(lda_batch const& batch) {
    std::uint64_t started = 0;
    auto row = batch.rows.begin();
    for (std::size_t d = batch.documents.first; d < batch.documents.last; ++d) {
      auto const entries = state_.documents().of_document(d);
      if (!state_.has_topics(d)) start(d, row), started += state_.topics_of(d).size();
      row += std::ssize(entries);
    }
    return started;
  }

  /// Draws a new topic for every token of the batch, given those of all others as far as they are known. O(topics)
  /// a token, without allocation.
  /// @pre `words` and `totals` are filled in, with counts that the batch's tokens are part of
  void sample(lda_batch const& batch) {
    auto row = batch.rows.begin();
    for (std::size_t d = batch.documents.first; d < batch.documents.last; ++d) {
      random_stream random = state_.next_sweep(d);
      enter(d);
      auto topic = state_.topics_of(d).begin();
      for (auto const& e : state_.documents().of_document(d)) {
        for (std::uint32_t n = 0; n < e.count; ++n, ++topic) {
          move(*row, *topic, -1);
          *topic = draw(words_.data() + *row * k_, random.uniform());
          move(*row, *topic, 1);
        }
        ++row;
      }
    }
  }

 private:
  using row_list = std::vector<std::uint32_t>::const_iterator;

  void start(std::size_t document, row_list row) noexcept {
    random_stream random = state_.next_sweep(document);
    auto topic = state_.topics_of(document).begin();
    for (auto const& e : state_.documents().of_document(document)) {
      for (std::uint32_t n = 0; n < e.count; ++n)
        change(*row, *topic++ = static_cast<std::uint32_t>(random.below(k_)), 1);
      ++row;
    }
  }

  void change(std::size_t row, std::size_t topic, std::int32_t by) noexcept {
    words_[row * k_ + topic] += by;
    word_changes_[row * k_ + topic] += by;
    totals_[topic] += by;
    total_changes_[topic] += by;
  }

  /// Adds a token of the document, or takes one away.
  void move(std::size_t row, std::size_t topic, std::int32_t by) noexcept {
    change(row, topic, by);
    in_document_[topic] += by;
    set_factor(topic);
  }

  void enter(std::size_t document) noexcept {
    state_.count_topics(document, in_document_);
    for (std::size_t k = 0; k < k_; ++k) set_factor(k);
  }

  /// A probability counts what it reads below zero as zero; the table keeps it as it is.
  void set_factor(std::size_t k) noexcept {
    double const total = static_cast<double>(std::max(totals_[k], std::int64_t{0}));
    factors_[k] = (static_cast<double>(in_document_[k]) + alpha_) / (total + beta_sum_);
  }

  /// A topic k, with a probability in proportion to (n_dk + α)(n_kw + β)/(n_k + Wβ).
  /// @param of_word its row of counts @param u uniform on [0, 1)
  /// Source: T. Griffiths, M. Steyvers, Finding scientific topics, PNAS 101, 2004, Eq. 5.
  [[nodiscard]] std::uint32_t draw(std::int32_t const* of_word, double u) noexcept {
    double sum = 0;
    for (std::size_t k = 0; k < k_; ++k)
      sums_[k] = sum += factors_[k] * (static_cast<double>(std::max(of_word[k], 0)) + beta_);
    auto const drawn = std::upper_bound(sums_.begin(), sums_.end(), u * sum) - sums_.begin();
    return static_cast<std::uint32_t>(std::min(drawn, std::ssize(sums_) - 1));
  }

  lda_state& state_;
  std::size_t k_;
  double alpha_;
  double beta_;
  double beta_sum_;                         ///< Wβ
  std::vector<std::int32_t> words_;
  std::vector<std::int64_t> totals_;
  std::vector<std::int32_t> word_changes_;
  std::vector<std::int64_t> total_changes_;
  std::vector<std::int32_t> in_document_;   ///< n_dk of the document that is sampled
  std::vector<double> factors_;             ///< (n_dk + α)/(n_k + Wβ), which changes in two topics with a token
  std::vector<double> sums_;                ///< of probabilities up to each topic
};

}  // namespace rubato::algorithm
