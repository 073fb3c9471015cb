// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/load_data.hpp"

#include <catch2/catch.hpp>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "bench/reproduce/registry.hpp"
#include "rubato/core/error.hpp"

using namespace rubato;
using namespace rubato::bench;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

/// A directory that goes away with the test.
class scratch_directory {
 public:
  scratch_directory()
      : path_(fs::temp_directory_path() / fmt::format("rubato-load-{}", ::getpid())) {
    fs::create_directory(path_);
  }
  scratch_directory(scratch_directory const&) = delete;
  scratch_directory& operator=(scratch_directory const&) = delete;
  ~scratch_directory() { fs::remove_all(path_); }

  [[nodiscard]] std::string file(std::string const& name) const { return path_ / name; }
  [[nodiscard]] std::string path() const { return path_; }

  /// Images of 2 x 2 pixels, all white, with their numbers as labels.
  void add_images(std::string const& images, std::string const& labels, char count) const {
    std::string const size{0, 0, 0, count};
    std::string const sides{0, 0, 0, 2, 0, 0, 0, 2};
    write(images, std::string{0, 0, 8, 3} + size + sides +
                      std::string(static_cast<std::size_t>(4 * count), '\xff'));
    std::string bytes = std::string{0, 0, 8, 1} + size;
    for (char i = 0; i < count; ++i) bytes += i;
    write(labels, bytes);
  }
  void write(std::string const& name, std::string const& bytes) const {
    std::ofstream(path_ / name, std::ios::binary).write(bytes.data(), std::ssize(bytes));
  }

 private:
  fs::path path_;
};

}  // namespace

TEST_CASE("without a file the data is synthetic and goes with the labels wanted") {
  auto const name = [](label_use labels) {
    return load_data({.labels = labels, .rows = 50}, 1).name;
  };
  CHECK(name(label_use::signs) == "synthetic url");
  CHECK(name(label_use::classes) == "synthetic digits");
  CHECK(name(label_use::numbers) == "synthetic chiller");
  CHECK(load_data({.synthetic = "ctr", .rows = 50}, 1).name == "synthetic ctr");
}

TEST_CASE("synthetic sets have the sizes asked for") {
  auto const rows = [](data_source const& from) {
    loaded_data const data = load_data(from, 1);
    return data.train.size() + data.test.size();
  };
  CHECK(rows({.synthetic = "digits", .rows = 123}) == 123);
  CHECK(rows({.synthetic = "url", .rows = 123}) == 123);
  CHECK(rows({.synthetic = "chiller", .rows = 123}) == 125);  // five chillers, 25 days
  CHECK(rows({.synthetic = "chiller"}) == 5 * 1461);
  CHECK_THROWS_WITH(load_data({.synthetic = "digits", .features = 9}, 1), Contains("--features"));
  CHECK_THROWS_WITH(load_data({.synthetic = "news"}, 1),
                    Contains("--synthetic") && Contains("url, ctr, digits or chiller"));
}

TEST_CASE("rows of few features have no more values than that, and errors are about what was asked for") {
  for (char const* const set : {"url", "ctr"}) {
    loaded_data const few = load_data({.synthetic = set, .rows = 100, .features = 5}, 1);
    CHECK(few.train.features() == 5);
    CHECK(few.train.nonzeros() == 5 * few.train.size());
  }
  CHECK_THROWS_WITH(load_data({.features = 5, .nonzeros = 6}, 1),
                    Contains("--nonzeros: 6") && Contains("5 --features"));
}

TEST_CASE("LIBSVM labels are signs, classes or numbers, as the model needs") {
  scratch_directory const at;
  at.write("few", "0 1:1\n1 1:2\n0 2:1\n1 2:2\n");
  auto const least = [&](label_use labels) {
    loaded_data const data = load_data({.file = at.file("few"), .labels = labels}, 1);
    return std::ranges::min(data.train.labels());
  };
  CHECK(least(label_use::signs) == -1);
  CHECK(least(label_use::classes) == 0);
  CHECK(least(label_use::numbers) == 0);
}

TEST_CASE("beside a file whose name just fits there can be no held-out data") {
  scratch_directory const at;
  std::string const longest(254, 'd');  // with .t it is longer than the system takes
  at.write(longest, "0 1:1\n1 1:2\n0 2:1\n1 2:2\n0 1:1\n");
  loaded_data const data = load_data({.file = at.file(longest)}, 1);
  CHECK(data.train.size() == 4);
  CHECK(data.test.size() == 1);
  CHECK_FALSE(reproduce_options{.data_dir = at.file(std::string(300, 'd'))}.data_file("url"));
}

TEST_CASE("images are found by their name or their directory, labels and test set beside them") {
  scratch_directory const at;
  at.add_images("train-images-idx3-ubyte", "train-labels-idx1-ubyte", 10);
  data_source const file{.file = at.file("train-images-idx3-ubyte"), .labels = label_use::classes};
  loaded_data const split = load_data(file, 1);
  CHECK(split.train.size() == 8);
  CHECK(split.test.size() == 2);
  CHECK(split.train.features() == 1);  // pooled
  CHECK(split.name == "train-images-idx3-ubyte");

  at.add_images("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", 3);
  for (std::string const& path : {file.file, at.path()}) {
    loaded_data const whole = load_data({.file = path, .labels = label_use::classes, .pool = 1}, 1);
    CHECK(whole.train.size() == 10);
    CHECK(whole.test.size() == 3);
    CHECK(whole.train.features() == 4);
  }

  at.add_images("other.images.idx3", "other.labels.idx1", 5);
  data_source given = file;
  given.test_file = at.file("other.images.idx3");
  CHECK(load_data(given, 1).test.size() == 5);
}

TEST_CASE("images that cannot be found are errors that name what was looked for") {
  scratch_directory const at;
  CHECK_THROWS_WITH(load_data({.file = at.path()}, 1),
                    Contains(at.path()) && Contains("train-images-idx3-ubyte"));
  at.write("digits-idx3", "x");
  CHECK_THROWS_WITH(load_data({.file = at.file("digits-idx3")}, 1),
                    Contains("--data") && Contains("images-idx3"));
  at.add_images("train-images-idx3-ubyte", "elsewhere", 2);
  CHECK_THROWS_WITH(load_data({.file = at.path()}, 1), Contains("train-labels-idx1-ubyte"));
  CHECK_THROWS_AS(load_data({.file = "/no/such/file"}, 1), data_error);
}
