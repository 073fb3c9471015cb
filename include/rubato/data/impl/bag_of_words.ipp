// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/data/bag_of_words.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "rubato/core/error.hpp"
#include "rubato/core/portable_math.hpp"
#include "rubato/core/random.hpp"
#include "rubato/data/impl/gzip_file.hpp"
#include "rubato/data/impl/quoted.hpp"
#include "rubato/data/impl/scanner.hpp"

namespace rubato::data {
namespace {

constexpr std::uint64_t ids_max = std::numeric_limits<std::uint32_t>::max();

void check_count(word_count const& c, std::size_t documents, std::size_t words) {
  auto const name = [&] { return fmt::format("bag of words: the count of word {} in document {}",
                                              c.word, c.document); };
  if (c.document >= documents) throw data_error(fmt::format("{}: expected a document below {}", name(), documents));
  if (c.word >= words) throw data_error(fmt::format("{}: expected a word below {}", name(), words));
  if (c.count == 0 || c.count > bag_of_words::count_max)
    throw data_error(fmt::format("{} is {}, expected 1 to {}", name(), c.count, bag_of_words::count_max));
}

/// Reads a docword file from front to back.
class docword_parser {
 public:
  docword_parser(gzip_file& file) : in_(file), name_(file.path()) {}

  bag_of_words parse() {
    in_.skip_byte_order_mark();
    documents_ = header("documents", ids_max);
    words_ = header("words", ids_max);
    std::uint64_t const lines = header("lines to come", std::numeric_limits<std::uint64_t>::max());
    while (next_line()) {
      if (all_.size() == lines) fail("a line beyond the {} that the header tells of, expected no more", lines);
      read_count();
    }
    if (all_.size() < lines) fail("ends after {} lines of counts, expected {} as in the header", all_.size(), lines);
    check_documents();
    check_distinct();
    return {static_cast<std::size_t>(documents_), static_cast<std::size_t>(words_), std::move(all_)};
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> reason, Args&&... args) const {
    throw data_error(fmt::format("{}:{}: {}", name_, line_, fmt::format(reason, std::forward<Args>(args)...)));
  }

  /// Goes on to a line that has a field; false at the end.
  bool next_line() {
    for (; !in_.at_end(); in_.skip_line(), ++line_) {
      in_.skip_blanks();
      if (!in_.at_line_end()) return true;
    }
    return false;
  }

  std::uint64_t header(char const* what, std::uint64_t most) {
    if (!next_line()) fail("ends, expected the number of {}", what);
    std::uint64_t const n = number(what, 1, most);
    end_line("one number");
    return n;
  }

  void read_count() {
    auto const document = number("document", 1, documents_);
    auto const word = number("word", 1, words_);
    auto const count = number("count", 1, bag_of_words::count_max);
    all_.push_back({static_cast<std::uint32_t>(document - 1), static_cast<std::uint32_t>(word - 1),
                    static_cast<std::uint32_t>(count)});
    lines_.push_back(line_);
    end_line("document word count");
  }

  std::uint64_t number(char const* what, std::uint64_t least, std::uint64_t most) {
    in_.skip_blanks();
    if (in_.at_line_end()) fail("ends before the {}, expected document word count", what);
    std::string_view const field = in_.field();
    std::uint64_t n = 0;
    auto const [end, error] = std::from_chars(field.data(), field.data() + field.size(), n);
    if (error == std::errc::invalid_argument || end != field.data() + field.size())
      fail("{} {} is not a whole number, expected {} to {}", what, quoted(field), least, most);
    if (error != std::errc{} || n < least || n > most)
      fail("{} {} is out of range, expected {} to {}", what, quoted(field), least, most);
    return n;
  }

  void end_line(char const* expected) {
    in_.skip_blanks();
    if (!in_.at_line_end()) fail("{} is one field too many, expected {}", quoted(in_.field()), expected);
    in_.skip_line();
    ++line_;
  }

  void check_documents() const {
    std::uint64_t const most = (std::uint64_t{1} << 20) + 64 * std::uint64_t{all_.size()};
    if (documents_ <= most) return;
    throw data_error(fmt::format("{}: {} documents in {} lines of counts, expected at most {}", name_, documents_,
                                 all_.size(), most));
  }

  void check_distinct() const {
    auto const place = [&](std::size_t i) { return std::tuple(all_[i].document, all_[i].word, i); };
    std::vector<std::size_t> order(all_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, place);
    auto const twice = std::ranges::adjacent_find(order, [&](std::size_t a, std::size_t b) {
      return all_[a].document == all_[b].document && all_[a].word == all_[b].word;
    });
    if (twice == order.end()) return;
    word_count const& c = all_[*twice];
    throw data_error(fmt::format("{}:{}: word {} of document {} is counted twice, expected once; first in line {}",
                                 name_, lines_[twice[1]], c.word + 1, c.document + 1, lines_[*twice]));
  }

  scanner in_;
  std::string const& name_;
  std::uint64_t line_ = 1;
  std::uint64_t documents_ = 0;
  std::uint64_t words_ = 0;
  std::vector<word_count> all_;
  std::vector<std::uint64_t> lines_;  ///< of `all_`
};

/// The logarithm of a gamma variate. Of shapes below 1 the variate itself may well be too small for a double.
/// G. Marsaglia, W. Tsang, A Simple Method for Generating Gamma Variables, ACM TOMS 26, 2000.
double log_gamma_variate(double shape, random_stream& random) {
  using rubato::detail::portable_log;
  double boost = 0;
  if (shape < 1) {
    boost = portable_log(1 - random.uniform()) / shape;
    shape += 1;
  }
  double const d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    double const x = random.normal(), root = 1 + c * x;
    if (root <= 0) continue;
    double const v = root * root * root;
    double const bound = 0.5 * x * x + d - d * v + d * portable_log(v);
    if (portable_log(1 - random.uniform()) < bound) return portable_log(d * v) + boost;
  }
}

/// A draw from the symmetric Dirichlet distribution.
void draw_dirichlet(std::span<double> out, double concentration, random_stream& random) {
  for (double& x : out) x = log_gamma_variate(concentration, random);
  double const greatest = *std::ranges::max_element(out);  // becomes 1: the sum is not 0
  double total = 0;
  for (double& x : out) total += x = rubato::detail::portable_exp(x - greatest);
  for (double& x : out) x /= total;
}

/// A place of a distribution whose running sums these are.
std::uint32_t draw_from(std::span<double const> sums, random_stream& random) {
  auto const at = std::ranges::upper_bound(sums, random.uniform() * sums.back()) - sums.begin();
  return static_cast<std::uint32_t>(std::min(at, std::ssize(sums) - 1));
}

void check_documents_options(documents_options const& o) {
  auto const expect = [](bool holds, char const* sentence) {
    if (!holds) throw option_error(std::string("synthetic documents: ") + sentence);
  };
  // Of less the logarithms of variates would not be finite either.
  auto const is_concentration = [](double x) { return x >= 1e-300 && std::isfinite(x); };
  expect(o.documents >= 1 && o.documents <= ids_max, "documents must be from 1 to 2^32 - 1");
  expect(o.words >= 1 && o.words <= ids_max, "words must be from 1 to 2^32 - 1");
  expect(o.topics >= 1 && o.topics <= ids_max, "topics must be from 1 to 2^32 - 1");
  expect(o.length <= bag_of_words::count_max, "length must be at most 1000000");
  expect(is_concentration(o.alpha), "alpha must be finite and at least 1e-300");
  expect(is_concentration(o.beta), "beta must be finite and at least 1e-300");
}

}  // namespace

bag_of_words::bag_of_words(std::size_t documents, std::size_t words, std::vector<word_count> all) {
  for (word_count const& c : all) check_count(c, documents, words);
  std::ranges::sort(all, {}, [](word_count const& c) { return std::tuple(c.document, c.word); });
  auto const twice = std::ranges::adjacent_find(
      all, [](word_count const& a, word_count const& b) { return a.document == b.document && a.word == b.word; });
  if (twice != all.end())
    throw data_error(fmt::format("bag of words: the count of word {} in document {} is there twice, expected once",
                                 twice->word, twice->document));
  state s;
  s.words = words;
  s.first.resize(documents + 1);
  s.entries.reserve(all.size());
  for (word_count const& c : all) {
    s.tokens += c.count;
    s.entries.push_back({c.word, c.count});
    ++s.first[c.document + std::size_t{1}];
  }
  std::partial_sum(s.first.begin(), s.first.end(), s.first.begin());
  state_ = std::make_shared<state const>(std::move(s));
}

bag_of_words read_bag_of_words(std::string const& path) {
  gzip_file file(path);
  return docword_parser(file).parse();
}

synthetic_documents make_synthetic_documents(documents_options const& o) {
  check_documents_options(o);
  random_stream random(o.seed);
  std::vector<double> topics(o.topics * o.words);
  for (std::size_t k = 0; k < o.topics; ++k)
    draw_dirichlet(std::span(topics).subspan(k * o.words, o.words), o.beta, random);
  std::vector<double> word_sums = topics;
  for (std::size_t k = 0; k < o.topics; ++k) {
    auto const of_topic = std::span(word_sums).subspan(k * o.words, o.words);
    std::partial_sum(of_topic.begin(), of_topic.end(), of_topic.begin());
  }
  std::vector<word_count> all;
  std::vector<double> topic_sums(o.topics);
  for (std::uint32_t d = 0; d < o.documents; ++d) {
    draw_dirichlet(topic_sums, o.alpha, random);
    std::partial_sum(topic_sums.begin(), topic_sums.end(), topic_sums.begin());
    std::map<std::uint32_t, std::uint32_t> counts;
    for (std::size_t i = 0; i < o.length; ++i) {
      std::size_t const k = draw_from(topic_sums, random);
      ++counts[draw_from(std::span(word_sums).subspan(k * o.words, o.words), random)];
    }
    for (auto const& [word, count] : counts) all.push_back({d, word, count});
  }
  return {bag_of_words(o.documents, o.words, std::move(all)), std::move(topics)};
}

}  // namespace rubato::data
