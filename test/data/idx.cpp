// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/data/idx.hpp>

#include <catch2/catch.hpp>

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <rubato/core/error.hpp>
#include <rubato/core/random.hpp>

#include "real_data.hpp"

namespace rd = rubato::data;
using Catch::Contains;
using rubato::data_error;
using rubato_test::real_data;

namespace {

/// Files of images and labels that go away with the test.
class scratch_pair {
 public:
  scratch_pair(std::string_view images, std::string_view labels, bool packed = false) {
    static int made = 0;
    auto const base = std::filesystem::temp_directory_path() /
                      fmt::format("rubato-idx-{}-{}", ::getpid(), made++);
    images_ = base.string() + "-images";
    labels_ = base.string() + "-labels";
    write(images_, images, packed);
    write(labels_, labels, packed);
  }
  scratch_pair(scratch_pair const&) = delete;
  scratch_pair& operator=(scratch_pair const&) = delete;
  ~scratch_pair() {
    std::filesystem::remove(images_);
    std::filesystem::remove(labels_);
  }

  [[nodiscard]] rd::dataset read(std::size_t pool = 1) const {
    return rd::read_idx_images(images_, labels_, {.pool = pool});
  }
  [[nodiscard]] std::string error(std::size_t pool = 1) const {
    try {
      (void)read(pool);
    } catch (data_error const& e) {
      return e.what();
    }
    return "no error";
  }
  [[nodiscard]] std::string const& images() const { return images_; }
  [[nodiscard]] std::string const& labels() const { return labels_; }

 private:
  static void write(std::string const& path, std::string_view bytes, bool packed) {
    if (!packed) {
      std::ofstream(path, std::ios::binary).write(bytes.data(), std::ssize(bytes));
      return;
    }
    gzFile const out = gzopen(path.c_str(), "wb");
    REQUIRE(gzwrite(out, bytes.data(), static_cast<unsigned>(bytes.size())) ==
            static_cast<int>(bytes.size()));
    REQUIRE(gzclose(out) == Z_OK);
  }

  std::string images_, labels_;
};

std::string big_endian(std::vector<std::uint32_t> const& numbers) {
  std::string bytes;
  for (std::uint32_t const n : numbers)
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(n >> shift & 0xff);
  return bytes;
}

std::string bytes_of(std::vector<int> const& values) {
  std::string bytes;
  for (int const v : values) bytes += static_cast<char>(v);
  return bytes;
}

/// Two images of 2 x 4 pixels, a seven and a zero.
std::string const two_images = big_endian({2051, 2, 2, 4}) + bytes_of({0, 255, 51, 0, 0, 0, 0, 102,  //
                                                                       255, 255, 0, 0, 255, 255, 0, 0});
std::string const two_labels = big_endian({2049, 2}) + bytes_of({7, 0});

std::vector<float> values_of(rd::example row) { return {row.values.begin(), row.values.end()}; }
std::vector<std::uint32_t> indices_of(rd::example row) {
  return {row.indices.begin(), row.indices.end()};
}

}  // namespace

TEST_CASE("idx images become sparse rows, packed or not", "[data][idx]") {
  bool const packed = GENERATE(false, true);
  rd::dataset const data = scratch_pair(two_images, two_labels, packed).read();
  REQUIRE(data.size() == 2);
  CHECK(data.features() == 8);
  CHECK(data[0].label == 7);
  CHECK(indices_of(data[0]) == std::vector<std::uint32_t>{1, 2, 7});
  CHECK(values_of(data[0]) == std::vector<float>{1, 0.2F, 0.4F});
  CHECK(data[1].label == 0);
  CHECK(indices_of(data[1]) == std::vector<std::uint32_t>{0, 1, 4, 5});
}

TEST_CASE("pooling takes the mean of squares of pixels", "[data][idx]") {
  rd::dataset const data = scratch_pair(two_images, two_labels).read(2);
  CHECK(data.features() == 2);
  CHECK(indices_of(data[0]) == std::vector<std::uint32_t>{0, 1});
  CHECK(values_of(data[0]) == std::vector<float>{0.25F, 0.15F});
  CHECK(indices_of(data[1]) == std::vector<std::uint32_t>{0});
  CHECK(values_of(data[1]) == std::vector<float>{1});
}

TEST_CASE("idx files of another kind are told apart by their magic number", "[data][idx]") {
  scratch_pair const swapped(two_labels, two_images);
  CHECK_THAT(swapped.error(), Contains(swapped.images() + ": magic number 2049, expected 2051"));
  scratch_pair const floats(two_images, big_endian({0xd01, 2}) + bytes_of({7, 0}));
  CHECK_THAT(floats.error(), Contains(floats.labels() + ": magic number 3329, expected 2049"));
  CHECK_THAT(scratch_pair("<html>404</html>", two_labels).error(), Contains("expected 2051"));
}

TEST_CASE("idx files that end too early are refused, wherever that is", "[data][idx]") {
  for (std::size_t size = 0; size < two_images.size(); ++size) {
    INFO(size);
    scratch_pair const files(std::string_view(two_images).substr(0, size), two_labels);
    CHECK_THAT(files.error(),
               Contains(files.images() + ": ends after") && Contains("expected more data"));
  }
  for (std::size_t size = 0; size < two_labels.size(); ++size) {
    INFO(size);
    scratch_pair const files(two_images, std::string_view(two_labels).substr(0, size));
    CHECK_THAT(files.error(),
               Contains(files.labels() + ": ends after") && Contains("expected more data"));
  }
  CHECK_THAT(scratch_pair("", two_labels).error(), Contains("0 of the 4 bytes of the magic number"));
  CHECK_THAT(scratch_pair(two_images.substr(0, 25), two_labels).error(),
             Contains("1 of the 8 bytes of image 2 of 2"));
}

TEST_CASE("idx files that go on too long are refused", "[data][idx]") {
  scratch_pair const more_images(two_images + 'x', two_labels);
  CHECK_THAT(more_images.error(),
             Contains(more_images.images() + ": goes on") && Contains("2 images and no more"));
  scratch_pair const more_labels(two_images, two_labels + 'x');
  CHECK_THAT(more_labels.error(),
             Contains(more_labels.labels() + ": goes on") && Contains("2 labels and no more"));
}

TEST_CASE("idx files must have as many images as labels", "[data][idx]") {
  scratch_pair const files(two_images, big_endian({2049, 3}) + bytes_of({7, 0, 1}));
  CHECK_THAT(files.error(),
             Contains(files.images() + ": 2 images, expected") && Contains(files.labels() + ", 3"));
  CHECK_THAT(scratch_pair(big_endian({2051, 0, 2, 4}), big_endian({2049, 0})).error(),
             Contains("no images, expected at least one"));
}

TEST_CASE("a header may promise anything without costing memory", "[data][idx]") {
  constexpr std::uint32_t huge = 0xffff'ffffU;
  std::vector<std::uint32_t> const sizes[] = {
      {huge, huge}, {huge, 1}, {1, huge}, {0x10000, 0x10000}, {4097, 4096}, {0, 4}, {4, 0}, {0, 0}};
  for (auto const& s : sizes) {
    INFO(s[0] << " x " << s[1]);
    scratch_pair const files(big_endian({2051, 2, s[0], s[1]}) + "pixels", two_labels);
    CHECK_THAT(files.error(), Contains(files.images() + ": images of") &&
                                  Contains("expected 1 to 16777216 pixels"));
  }
  // Four billion images that are not there.
  scratch_pair const many(big_endian({2051, huge, 2, 4}) + std::string(8, 'x'),
                          big_endian({2049, huge}) + "x");
  CHECK_THAT(many.error(), Contains("image 2 of 4294967295"));
  scratch_pair const large(big_endian({2051, 2, 4096, 4096}), two_labels);
  CHECK_THAT(large.error(), Contains("0 of the 16777216 bytes of image 1 of 2"));
}

TEST_CASE("pooling must fit the images", "[data][idx]") {
  scratch_pair const files(two_images, two_labels);
  CHECK_THAT(files.error(4), Contains(files.images()) && Contains("2 x 4 pixels") &&
                                 Contains("sides that 4 divides"));
  CHECK_THAT(files.error(3), Contains("sides that 3 divides"));
  CHECK_THAT(files.error(std::size_t{1} << 63), Contains("divides"));
  CHECK_THROWS_AS(files.read(0), rubato::option_error);
}

TEST_CASE("idx files that cannot be read are errors of input and output", "[data][idx]") {
  scratch_pair const files(two_images, two_labels);
  auto const code = [](std::string const& i, std::string const& l) {
    try {
      (void)rd::read_idx_images(i, l);
    } catch (data_error const& e) {
      CHECK_THAT(e.what(), Contains("/no/such/file") || Contains("/tmp"));
      return e.code();
    }
    return rubato::errc::refused;
  };
  CHECK(code("/no/such/file", files.labels()) == rubato::errc::io);
  CHECK(code(files.images(), "/no/such/file") == rubato::errc::io);
  CHECK(code("/tmp", files.labels()) == rubato::errc::io);
}

TEST_CASE("a gzip stream cut anywhere is refused", "[data][idx]") {
  scratch_pair const whole(two_images, two_labels, true);
  std::ifstream in(whole.images(), std::ios::binary);
  std::string const packed{std::istreambuf_iterator<char>(in), {}};
  REQUIRE(packed.size() > 20);
  for (std::size_t size = 0; size < packed.size(); ++size) {
    INFO(size);
    scratch_pair const files(std::string_view(packed).substr(0, size), two_labels);
    CHECK_THROWS_AS(files.read(), data_error);
  }
}

TEST_CASE("any bytes give a data set or a data_error", "[data][idx]") {
  rubato::random_stream random(11);
  for (int i = 0; i < 2000; ++i) {
    std::string broken_images = two_images, broken_labels = two_labels;
    for (std::uint64_t flips = 1 + random.below(3); flips > 0; --flips) {
      std::string& file = random.chance(0.7) ? broken_images : broken_labels;
      file[random.below(file.size())] = static_cast<char>(random.below(256));
    }
    scratch_pair const files(broken_images, broken_labels);
    try {
      rd::dataset const data = files.read();
      CHECK(data.size() == 2);
    } catch (data_error const&) {
    }
  }
}

TEST_CASE("MNIST is read as it was published", "[data][idx][real]") {
  auto const image_file = real_data("train-images-idx3-ubyte.gz");
  auto const label_file = real_data("train-labels-idx1-ubyte.gz");
  if (!image_file || !label_file) return;
  rd::dataset const data = rd::read_idx_images(*image_file, *label_file);
  CHECK(data.size() == 60'000);
  CHECK(data.features() == 28 * 28);
  CHECK(data[0].label == 5);  // the first image is the well-known five
  CHECK(std::ranges::count(data.labels(), 1.0F) == 6742);
  CHECK(std::ranges::count(data.labels(), 5.0F) == 5421);
  double sum = 0;
  for (rd::example const row : data.rows())
    for (float const v : row.values) sum += double(v);
  CHECK(sum / (60'000.0 * 784) == Approx(0.1307).margin(0.0001));  // the mean that is often quoted
  auto const test_images = real_data("t10k-images-idx3-ubyte.gz");
  auto const test_labels = real_data("t10k-labels-idx1-ubyte.gz");
  if (!test_images || !test_labels) return;
  rd::dataset const test = rd::read_idx_images(*test_images, *test_labels, {.pool = 2});
  CHECK(test.size() == 10'000);
  CHECK(test.features() == 14 * 14);
}
