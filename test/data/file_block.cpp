// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/data/file_block.hpp>

#include <catch2/catch.hpp>

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <rubato/core/error.hpp>
#include <rubato/core/random.hpp>

#include "scratch_file.hpp"
#include "seeds.hpp"

namespace rd = rubato::data;
using Catch::Contains;
using rubato_test::scratch_file;

namespace {

rd::libsvm_options const plain{.labels = rd::label_kind::raw, .features = 1};

/// Lines of many lengths, some without a row, whose labels count from 0.
std::string lines(std::size_t rows, std::uint64_t seed, bool last_newline) {
  rubato::random_stream random(seed, 0xf11e);
  std::string text;
  for (std::size_t i = 0; i < rows; ++i) {
    if (random.chance(0.2)) text += random.chance(0.5) ? "\n" : "# nothing here\n";
    text += fmt::format("{} 1:{}{}\n", i, 1 + random.below(9), std::string(random.below(40), ' '));
  }
  if (!last_newline) text.pop_back();
  return text;
}

std::vector<float> labels_in(std::vector<rd::file_block> const& blocks) {
  std::vector<float> all;
  for (auto const& block : blocks) {
    rd::dataset const rows = rd::read_libsvm(block, plain);
    CHECK(rows.features() == 1);
    all.insert(all.end(), rows.labels().begin(), rows.labels().end());
  }
  return all;
}

template <class F>
std::string sentence_of(F f) {
  try {
    f();
  } catch (rubato::error const& e) {
    return e.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("blocks of any size hold each line of a file once, in order") {
  std::uint64_t const seeds = rubato::test::sanitized() ? 2 : 5;  // each byte's block opens the file
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    std::string const text = lines(30, seed, seed % 2 == 0);
    scratch_file const file(text);
    std::vector<float> expected(30);
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<float>(i);
    for (std::uint64_t const bytes : {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{7}, std::uint64_t{64},
                                      text.size() - 1, text.size(), text.size() + 1}) {
      INFO("seed " << seed << ", blocks of " << bytes);
      auto const blocks = rd::split_file(file.path(), bytes);
      CHECK(blocks.size() == (text.size() + bytes - 1) / bytes);
      REQUIRE(labels_in(blocks) == expected);
    }
  }
}

TEST_CASE("a byte order mark is of the first line, whatever block it ends in") {
  for (std::string const first : {"", "\n", "0 1:1\n"}) {
    std::string const text = "\xef\xbb\xbf" + first + "1 1:1\n2 1:1";
    scratch_file const file(text);
    std::vector<float> expected{0, 1, 2};
    if (first.size() < 2) expected.erase(expected.begin());
    for (std::uint64_t bytes = 1; bytes <= text.size(); ++bytes) {
      INFO('"' << first << "\", blocks of " << bytes);
      CHECK(labels_in(rd::split_file(file.path(), bytes)) == expected);
    }
  }
}

TEST_CASE("a compressed file is one block") {
  scratch_file const file;
  gzFile const out = gzopen(file.path().c_str(), "wb");
  std::string const text = lines(100, 7, true);
  REQUIRE(gzwrite(out, text.data(), static_cast<unsigned>(text.size())) == static_cast<int>(text.size()));
  REQUIRE(gzclose(out) == Z_OK);
  auto const blocks = rd::split_file(file.path(), 10, {rubato::node_id{3}});
  REQUIRE(blocks.size() == 1);
  CHECK(blocks[0].nodes == std::vector{rubato::node_id{3}});
  CHECK(labels_in(blocks).size() == 100);
  scratch_file const unpacked(text);
  for (std::uint64_t const begin : {std::uint64_t{1}, std::uint64_t{5}, text.size() / 2, text.size()}) {
    INFO("from byte " << begin);  // of what is read
    CHECK(labels_in({rd::file_block{file.path(), begin, text.size()}}) ==
          labels_in({rd::file_block{unpacked.path(), begin, text.size()}}));
  }
}

TEST_CASE("a file without bytes has no blocks, and a block without lines no rows") {
  scratch_file const empty;
  CHECK(rd::split_file(empty.path(), 10).empty());
  scratch_file const one("1 1:1\n");
  CHECK(rd::read_libsvm(rd::file_block{one.path(), 1, 6}, plain).empty());
  CHECK(rd::read_libsvm(rd::file_block{one.path(), 4, 2}, plain).empty());
  CHECK(rd::read_libsvm(rd::file_block{one.path(), 100, 200}, plain).empty());
  CHECK(rd::read_libsvm(rd::file_block{.file = one.path()}, plain).size() == 1);
}

TEST_CASE("what is wrong in a block is named by its file, byte and line") {
  scratch_file const file("1 1:1\n2 1:1\n3 1:x\n");
  CHECK_THAT(sentence_of([&] { (void)rd::read_libsvm(rd::file_block{file.path(), 3, 18}, plain); }),
             Contains(file.path() + " from byte 3:2: value 'x' is not a number"));
}

TEST_CASE("blocks that cannot be cut or read are errors") {
  scratch_file const file("1 1:1\n");
  CHECK_THROWS_AS(rd::split_file(file.path(), 0), rubato::option_error);
  CHECK_THROWS_AS(rd::read_libsvm(rd::file_block{.file = file.path()}, {.features = 1}), rubato::option_error);
  CHECK_THROWS_AS(rd::read_libsvm(rd::file_block{.file = file.path()}, {.labels = rd::label_kind::raw}),
                  rubato::option_error);
  CHECK_THAT(sentence_of([] { (void)rd::split_file("/no/such/file", 10); }), Contains("/no/such/file: cannot open"));
  CHECK_THAT(sentence_of([] { (void)rd::split_file("/", 10); }), Contains("/: cannot"));
  scratch_file const large;
  std::filesystem::resize_file(large.path(), std::uint64_t{1} << 21);  // takes no room
  CHECK_THAT(sentence_of([&] { (void)rd::split_file(large.path(), 2); }), Contains("over 1048576 blocks of 2 bytes"));
}
