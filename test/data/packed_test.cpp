// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Files that are packed in a way that no reader unpacks.
#include <rubato/data/impl/packed.hpp>

#include <catch2/catch.hpp>

#include <functional>
#include <string>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/data/bag_of_words.hpp>
#include <rubato/data/file_block.hpp>
#include <rubato/data/idx.hpp>
#include <rubato/data/libsvm.hpp>
#include <rubato/data/movielens.hpp>

#include "data/scratch_file.hpp"

using namespace rubato;
using Catch::Contains;

namespace {

/// The file's first bytes as the programs write them, and some that follow.
struct packed_sample {
  std::string name;
  std::string command;
  std::string bytes;
};

std::vector<packed_sample> packed_samples() {
  return {{"bzip2", "bunzip2 -k '", "BZh91AY&SY\xd8\x72\x01\x2f\x00\x00\x01\x57"},
          {"xz", "xz -dk '", std::string("\xfd\x37\x7a\x58\x5a\x00\x00\x04\xe6\xd6\xb4\x46", 12)},
          {"zstd", "zstd -d '", std::string("\x28\xb5\x2f\xfd\x24\x06\x31\x00\x00", 9)},
          {"zip", "unzip '", std::string("PK\x03\x04\x0a\x00\x00\x00", 8)}};
}

/// What a reader says; fails the test where it reads the file.
std::string packed_complaint(std::function<void()> const& read) {
  try {
    read();
  } catch (data_error const& e) {
    CHECK(e.code() == errc::bad_data);
    return e.what();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("packed files: every reader names file, format and the command that unpacks it, and shows no byte",
          "[data]") {
  for (auto const& [name, command, bytes] : packed_samples()) {
    rubato_test::scratch_file const file(bytes);
    std::string const& path = file.path();
    std::string const expected =
        path + ": packed by " + name + ", expected text, or gzip: " + command + path + "' unpacks it";
    CHECK(packed_complaint([&] { (void)data::read_libsvm(path); }) == expected);
    CHECK(packed_complaint([&] { (void)data::read_ratings(path); }) == expected);
    CHECK(packed_complaint([&] { (void)data::read_bag_of_words(path); }) == expected);
    CHECK(packed_complaint([&] { (void)data::read_idx_images(path, path); }) == expected);
    CHECK(packed_complaint([&] { (void)data::split_file(path, 4); }) == expected);
    data::file_block const middle{path, 4, 8, {}};
    data::libsvm_options const options{.labels = data::label_kind::raw, .features = 9};
    CHECK(packed_complaint([&] { (void)data::read_libsvm(middle, options); }) == expected);
  }
}

TEST_CASE("packed files: text that begins alike, and one that is shorter than any mark, are read as text", "[data]") {
  for (std::string const text : {"BZhello 1:1\n", "PK 1:1\n", "BZh", "B", "xz\n"}) {
    rubato_test::scratch_file const file(text);
    std::string const said = packed_complaint([&] { (void)data::read_libsvm(file.path()); });
    CHECK_THAT(said, !Contains("packed") && Contains(":1:"));
  }
  rubato_test::scratch_file const empty;
  CHECK(data::split_file(empty.path(), 4).empty());
}
