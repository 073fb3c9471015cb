// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace rubato::data {

/// How often a word occurs in a document.
struct word_count {
  std::uint32_t document = 0;  ///< its number, from 0
  std::uint32_t word = 0;  ///< its number in the vocabulary, from 0
  std::uint32_t count = 0;  ///< how often the word occurs in the document

  friend bool operator==(word_count const&, word_count const&) = default;
};

/// Documents as counts of words, whose order is not kept: what topic models work on.
/// Immutable, used concurrently; copies share their memory, 8 bytes for each different word of each document.
class bag_of_words {
 public:
  /// A word of a document, and how often it occurs there: at least once, at most `count_max` times.
  struct entry {
    std::uint32_t word;  ///< its number in the vocabulary, from 0
    std::uint32_t count;  ///< how often it occurs in the document

    friend bool operator==(entry const&, entry const&) = default;
  };
  /// The most that one word may occur in one document.
  static constexpr std::uint32_t count_max = 1'000'000;

  /// @param all in any order; a document that occurs nowhere is empty
  /// @throws data_error naming a count that is of a document or word that there is not, 0 or above `count_max`,
  /// or there twice
  /// Cost: O(documents + counts log counts)
  bag_of_words(std::size_t documents, std::size_t words, std::vector<word_count> all);

  /// The number of documents, of which some may be empty.
  [[nodiscard]] std::size_t documents() const noexcept { return state_->first.size() - 1; }
  /// The size of the vocabulary, in which some may occur nowhere.
  [[nodiscard]] std::size_t words() const noexcept { return state_->words; }
  /// Different words, summed over the documents.
  [[nodiscard]] std::size_t size() const noexcept { return state_->entries.size(); }
  /// All words of all documents, each as often as it occurs.
  [[nodiscard]] std::uint64_t tokens() const noexcept { return state_->tokens; }

  /// The words of a document, ascending. @pre `d` is below `documents()`
  [[nodiscard]] std::span<entry const> of_document(std::size_t d) const noexcept {
    return std::span(state_->entries).subspan(state_->first[d], state_->first[d + 1] - state_->first[d]);
  }

 private:
  struct state {
    std::size_t words = 0;
    std::uint64_t tokens = 0;
    std::vector<std::size_t> first;  ///< of a document's entries; one more than there are documents
    std::vector<entry> entries;
  };

  std::shared_ptr<state const> state_;
};

/// Reads UCI's docword format: a line each with the numbers of documents D, of words W and of lines to come N,
/// then N lines `document word count`, in any order, with documents from 1 to D and words from 1 to W; in the
/// result both start at 0.
///
/// Gzip is recognised by content. Fields are separated by blanks, tabs or carriage returns; `#` starts a comment;
/// lines without a field are skipped; the last newline may be missing. Memory follows the lines that there are,
/// whatever the header says: D may be at most 64 times N and 2^20 more.
/// @throws data_error: `file:line: reason, expected ...`, for a count that is there twice also where it was first;
/// `file: reason` for a broken gzip stream, a file that is packed otherwise (bzip2, xz), or (with errc::io) one that
/// cannot be read. Any bytes give a result or one of these. Cost: O(bytes + N log N)
/// Source: D. Newman, Bag of Words, UCI Machine Learning Repository, 2008.
[[nodiscard]] bag_of_words read_bag_of_words(std::string const& path);

/// What synthetic documents should look like.
struct documents_options {
  std::size_t documents = 200;  ///< how many to draw; at least 1
  std::size_t words = 500;   ///< in the vocabulary
  std::size_t topics = 5;  ///< how many topics documents are mixed of; at least 1
  std::size_t length = 100;  ///< tokens in each document
  double alpha = 0.1;        ///< of the Dirichlet prior of a document's topics; the smaller, the fewer; at least 1e-300
  double beta = 0.05;        ///< of the Dirichlet prior of a topic's words; at least 1e-300
  std::uint64_t seed = 1;  ///< of all draws
};

/// Documents, and the topics that they were drawn from.
struct synthetic_documents {
  bag_of_words documents;  ///< the words that were drawn
  std::vector<double> topics;  ///< topics × words: the probability of each word, which sum up to 1 in each topic
};

/// A sample of latent Dirichlet allocation: a document's tokens are each of a topic drawn from the document's own
/// distribution, a word drawn from the topic's. The result depends on the options only, bit for bit, on every
/// compiler (built without floating-point contraction).
/// @throws option_error on an option out of range. Cost: O(topics × (words + documents)) and a logarithmic draw or
/// two for each token; topics × words numbers beside the result
/// Source: D. Blei, A. Ng, M. Jordan, Latent Dirichlet Allocation, JMLR 3, 2003.
[[nodiscard]] synthetic_documents make_synthetic_documents(documents_options const& options = {});

}  // namespace rubato::data
