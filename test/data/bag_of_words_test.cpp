// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/data/bag_of_words.hpp>

#include <catch2/catch.hpp>

#include <zlib.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <rubato/core/error.hpp>

#include "real_data.hpp"
#include "scratch_file.hpp"

namespace rb = rubato;
namespace rd = rubato::data;
using Catch::Contains;

namespace {

using bag_entries = std::vector<rd::bag_of_words::entry>;

bag_entries entries_of(rd::bag_of_words const& all, std::size_t document) {
  auto const of = all.of_document(document);
  return {of.begin(), of.end()};
}

/// What reading a file with these bytes throws, with `f` for its name.
std::string docword_error(std::string const& bytes) {
  rubato_test::scratch_file const file(bytes);
  try {
    static_cast<void>(rd::read_bag_of_words(file.path()));
  } catch (rb::data_error const& e) {
    std::string const text = e.what();
    return text.starts_with(file.path()) ? "f" + text.substr(file.path().size()) : text;
  }
  return "no error";
}

std::uint64_t hash_of(rd::bag_of_words const& all) {
  std::uint64_t h = 0xcbf29ce484222325U;  // FNV-1a
  for (std::size_t d = 0; d < all.documents(); ++d)
    for (auto const& e : all.of_document(d))
      for (std::uint64_t const word : {std::uint64_t{d}, std::uint64_t{e.word}, std::uint64_t{e.count}})
        h = (h ^ word) * 0x100000001b3U;
  return h;
}

}  // namespace

TEST_CASE("bag of words: each document has its words in ascending order, given in any", "[data]") {
  rd::bag_of_words const all(4, 9, {{2, 8, 1}, {0, 3, 2}, {2, 1, 5}, {0, 0, 1}, {3, 8, 1'000'000}});
  CHECK(all.documents() == 4);
  CHECK(all.words() == 9);
  CHECK(all.size() == 5);
  CHECK(all.tokens() == 1'000'009);
  CHECK(entries_of(all, 0) == bag_entries{{0, 1}, {3, 2}});
  CHECK(entries_of(all, 1).empty());
  CHECK(entries_of(all, 2) == bag_entries{{1, 5}, {8, 1}});
  rd::bag_of_words const copy = all;
  CHECK(copy.of_document(2).data() == all.of_document(2).data());
  CHECK(rd::bag_of_words(0, 0, {}).tokens() == 0);
}

TEST_CASE("bag of words: counts of no document or word, of 0 or too many, and doubles are refused", "[data]") {
  auto const made = [](rd::word_count c) { return rd::bag_of_words(2, 3, {{1, 2, 5}, c}); };
  CHECK_THROWS_WITH(made({2, 0, 1}), Contains("word 0 in document 2: expected a document below 2"));
  CHECK_THROWS_WITH(made({0, 3, 1}), Contains("word 3 in document 0: expected a word below 3"));
  CHECK_THROWS_WITH(made({0, 0, 0}), Contains("word 0 in document 0 is 0, expected 1 to 1000000"));
  CHECK_THROWS_WITH(made({0, 0, 1'000'001}), Contains("is 1000001, expected 1 to 1000000"));
  CHECK_THROWS_WITH(made({1, 2, 1}), Contains("word 2 in document 1 is there twice"));
  CHECK_THROWS_AS(made({1, 2, 1}), rb::data_error);
}

TEST_CASE("docword files: documents and words from 1, in any order, plain or gzip", "[data]") {
  std::string const text = "3\n5\n4\n1 2 7\n3 5 1\n1 1 2\n3 4 9\n";
  std::string const loose = "\xef\xbb\xbf# UCI\r\n 3 \r\n\n5\r\n4 # lines\n1\t2 7\r\n\n3 5 1\n1 1 2\n3 4 9";
  rubato_test::scratch_file const packed;
  gzFile const out = gzopen(packed.path().c_str(), "wb");
  REQUIRE(gzwrite(out, text.data(), static_cast<unsigned>(text.size())) == static_cast<int>(text.size()));
  REQUIRE(gzclose(out) == Z_OK);
  rubato_test::scratch_file const plain(text), other(loose);
  for (auto const* file : {&plain, &other, &packed}) {
    auto const all = rd::read_bag_of_words(file->path());
    CHECK(all.documents() == 3);
    CHECK(all.words() == 5);
    CHECK(entries_of(all, 0) == bag_entries{{0, 2}, {1, 7}});
    CHECK(entries_of(all, 1).empty());
    CHECK(entries_of(all, 2) == bag_entries{{3, 9}, {4, 1}});
  }
}

TEST_CASE("docword files: what is wrong is named with its line", "[data]") {
  CHECK(docword_error("") == "f:1: ends, expected the number of documents");
  CHECK(docword_error("3\n5\n") == "f:3: ends, expected the number of lines to come");
  CHECK(docword_error("x\n") == "f:1: documents 'x' is not a whole number, expected 1 to 4294967295");
  CHECK(docword_error("0\n1\n1\n1 1 1\n") == "f:1: documents '0' is out of range, expected 1 to 4294967295");
  CHECK(docword_error("1000000000000000000\n1\n1\n1 1 1\n") ==
        "f:1: documents '1000000000000000000' is out of range, expected 1 to 4294967295");
  CHECK(docword_error("4294967295\n1\n1\n1 1 1\n") ==
        "f: 4294967295 documents in 1 lines of counts, expected at most 1048640");
  CHECK(docword_error("1\n-2\n1\n1 1 1\n") == "f:2: words '-2' is not a whole number, expected 1 to 4294967295");
  CHECK(docword_error("1 1 1\n") == "f:1: '1' is one field too many, expected one number");
  CHECK(docword_error("1\n1\n1000000000000000000\n1 1 1\n") ==
        "f:5: ends after 1 lines of counts, expected 1000000000000000000 as in the header");
  CHECK(docword_error("2\n2\n2\n1 1 1\n") == "f:5: ends after 1 lines of counts, expected 2 as in the header");
  CHECK(docword_error("2\n2\n1\n1 1 1\n\n2 1 1\n") ==
        "f:6: a line beyond the 1 that the header tells of, expected no more");
  CHECK(docword_error("2\n2\n1\n3 1 1\n") == "f:4: document '3' is out of range, expected 1 to 2");
  CHECK(docword_error("2\n2\n1\n0 1 1\n") == "f:4: document '0' is out of range, expected 1 to 2");
  CHECK(docword_error("2\n2\n1\n1 3 1\n") == "f:4: word '3' is out of range, expected 1 to 2");
  CHECK(docword_error("2\n2\n1\n1 1 0\n") == "f:4: count '0' is out of range, expected 1 to 1000000");
  CHECK(docword_error("2\n2\n1\n1 1 1000001\n") == "f:4: count '1000001' is out of range, expected 1 to 1000000");
  CHECK(docword_error("2\n2\n1\n1 1 99999999999999999999\n") ==
        "f:4: count '99999999999999999999' is out of range, expected 1 to 1000000");
  CHECK(docword_error("2\n2\n1\n1 1 1.5\n") == "f:4: count '1.5' is not a whole number, expected 1 to 1000000");
  CHECK(docword_error("2\n2\n1\n1 1\n") == "f:4: ends before the count, expected document word count");
  CHECK(docword_error("2\n2\n1\n1 1 1 1\n") == "f:4: '1' is one field too many, expected document word count");
  CHECK(docword_error("2\n2\n3\n1 1 1\n2 1 1\n\n1 1 2\n") ==
        "f:7: word 1 of document 1 is counted twice, expected once; first in line 4");
  CHECK_THROWS_WITH(rd::read_bag_of_words("/no/such/file"), Contains("/no/such/file: cannot open"));
}

TEST_CASE("docword files: the KOS blog entries", "[data]") {
  auto const path = rubato_test::real_data("docword.kos.txt.gz");
  if (!path) return;
  auto const all = rd::read_bag_of_words(*path);
  CHECK(all.documents() == 3'430);
  CHECK(all.words() == 6'906);
  CHECK(all.size() == 353'160);
  CHECK(all.tokens() == 467'714);
  CHECK(entries_of(all, 0)[0] == rd::bag_of_words::entry{60, 2});
}

TEST_CASE("synthetic documents: as many and as long as asked for, the same for the same seed", "[data]") {
  rd::documents_options o{.documents = 30, .words = 40, .topics = 3, .length = 25};
  auto const made = rd::make_synthetic_documents(o);
  REQUIRE(made.documents.documents() == 30);
  CHECK(made.documents.words() == 40);
  for (std::size_t d = 0; d < 30; ++d) {
    std::uint32_t length = 0;
    for (auto const& e : made.documents.of_document(d)) length += e.count;
    CHECK(length == 25);
  }
  REQUIRE(made.topics.size() == 3 * 40);
  for (std::size_t k = 0; k < 3; ++k) {
    auto const of = std::span(made.topics).subspan(k * 40, 40);
    CHECK(std::accumulate(of.begin(), of.end(), 0.0) == Approx(1));
  }
  CHECK(hash_of(made.documents) == hash_of(rd::make_synthetic_documents(o).documents));
  CHECK(hash_of(made.documents) == 0xb72e37add5315121U);
  o.seed = 2;
  CHECK(hash_of(made.documents) != hash_of(rd::make_synthetic_documents(o).documents));
}

TEST_CASE("synthetic documents: a topic's words, and a document's topics, are as even as the priors say", "[data]") {
  // Of a Dirichlet distribution of n parts, the expected sum of squares is (a + 1)/(n a + 1).
  for (double const beta : {1e-4, 0.1, 3.0}) {
    auto const made =
        rd::make_synthetic_documents({.documents = 1, .words = 20, .topics = 4'000, .length = 0, .beta = beta});
    double squares = 0;
    for (double const p : made.topics) squares += p * p;
    CHECK(squares / 4'000 == Approx((beta + 1) / (20 * beta + 1)).epsilon(0.03));
  }
  // With one word to a topic, a document's words are its topics. Pairs of tokens are alike as often as that sum says.
  auto const made = rd::make_synthetic_documents(
      {.documents = 4'000, .words = 2'000, .topics = 8, .length = 10, .alpha = 0.2, .beta = 1e-7});
  double alike = 0;
  for (std::size_t d = 0; d < 4'000; ++d)
    for (auto const& e : made.documents.of_document(d)) alike += e.count * (e.count - 1.0) / 90;
  CHECK(alike / 4'000 == Approx(1.2 / 2.6).epsilon(0.05));
}

TEST_CASE("synthetic documents: of the least prior a topic has one word, and a document one topic", "[data]") {
  auto const made =
      rd::make_synthetic_documents({.documents = 50, .words = 20, .topics = 4, .alpha = 1e-300, .beta = 1e-300});
  for (double const p : made.topics) CHECK((p == 0 || p == 1));
  CHECK(std::accumulate(made.topics.begin(), made.topics.end(), 0.0) == 4);
  for (std::size_t d = 0; d < 50; ++d) CHECK(made.documents.of_document(d).size() == 1);
}

TEST_CASE("synthetic documents: options that cannot be meant are refused", "[data]") {
  auto const refused = [](rd::documents_options const& o, char const* why) {
    CHECK_THROWS_WITH(rd::make_synthetic_documents(o), Contains(why));
    CHECK_THROWS_AS(rd::make_synthetic_documents(o), rb::option_error);
  };
  refused({.documents = 0}, "documents must be from 1 to 2^32 - 1");
  refused({.words = 0}, "words must be from 1 to 2^32 - 1");
  refused({.topics = 0}, "topics must be from 1 to 2^32 - 1");
  refused({.length = 1'000'001}, "length must be at most 1000000");
  refused({.alpha = 0}, "alpha must be finite and at least 1e-300");
  refused({.beta = -1}, "beta must be finite and at least 1e-300");
  refused({.beta = 1e-310}, "beta must be finite and at least 1e-300");
}
