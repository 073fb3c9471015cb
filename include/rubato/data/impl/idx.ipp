// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/data/idx.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "rubato/core/error.hpp"
#include "rubato/data/impl/gzip_file.hpp"

namespace rubato::data {
namespace {

constexpr std::uint64_t pixels_max = std::uint64_t{1} << 24;  // of one image: 4096 x 4096

/// A file of unsigned bytes in idx format, read from front to back.
class idx_file {
 public:
  /// Opens it and checks its magic number: 0, 0, 8 for unsigned bytes, the number of dimensions.
  idx_file(std::string const& path, std::uint32_t dimensions, char const* content) : file_(path) {
    std::uint32_t const expected = 0x800 + dimensions;
    std::uint32_t const magic = number("the magic number");
    if (magic == expected) return;
    fail(fmt::format("magic number {}, expected {} as in an idx file of {}", magic, expected,
                     content));
  }

  /// A big-endian number of the header.
  std::uint32_t number(char const* what) {
    std::array<char, 4> bytes{};
    fill(bytes, what);
    std::uint32_t value = 0;
    for (char const byte : bytes) value = value << 8 | static_cast<unsigned char>(byte);
    return value;
  }

  void fill(std::span<char> into, std::string_view what) {
    std::size_t const got = file_.read(into);
    if (got == into.size()) return;
    fail(fmt::format("ends after {} of the {} bytes of {}, expected more data", got, into.size(),
                     what));
  }

  void expect_end(std::uint32_t count, char const* content) {
    std::array<char, 1> more{};
    if (file_.read(more) == 0) return;
    fail(fmt::format("goes on behind the last byte, expected its {} {} and no more", count,
                     content));
  }

  [[noreturn]] void fail(std::string const& reason) const {
    throw data_error(file_.path() + ": " + reason);
  }

 private:
  gzip_file file_;
};

/// Width and height, in pixels or in squares of them.
struct extent {
  std::size_t lines;
  std::size_t columns;

  [[nodiscard]] std::size_t area() const noexcept { return lines * columns; }
};

extent read_extent(idx_file& images, std::size_t pool) {
  std::uint64_t const lines = images.number("the number of lines");
  std::uint64_t const columns = images.number("the number of columns");
  if (lines == 0 || columns == 0 || lines * columns > pixels_max) {
    images.fail(fmt::format("images of {} x {} pixels, expected 1 to {} pixels", lines, columns,
                            pixels_max));
  }
  if (lines % pool != 0 || columns % pool != 0) {
    images.fail(fmt::format("images of {} x {} pixels, expected sides that {} divides, for pooling",
                            lines, columns, pool));
  }
  return {lines, columns};
}

/// Turns images into sparse rows.
class row_maker {
 public:
  row_maker(extent image, std::size_t pool)
      : image_(image), pool_(pool), rows_(image.area() / (pool * pool)) {}

  void add(std::span<char const> pixels, unsigned char label) {
    indices_.clear();
    values_.clear();
    std::uint32_t feature = 0;
    double const white = 255.0 * static_cast<double>(pool_ * pool_);
    for (std::size_t line = 0; line < image_.lines; line += pool_) {
      for (std::size_t column = 0; column < image_.columns; column += pool_, ++feature) {
        std::uint64_t const sum = square(pixels, line, column);
        if (sum == 0) continue;
        indices_.push_back(feature);
        values_.push_back(static_cast<float>(static_cast<double>(sum) / white));
      }
    }
    rows_.add(label, indices_, values_);
  }

  dataset build() { return rows_.build(); }

 private:
  [[nodiscard]] std::uint64_t square(std::span<char const> pixels, std::size_t line,
                                     std::size_t column) const {
    std::uint64_t sum = 0;
    for (std::size_t i = line; i < line + pool_; ++i) {
      for (char const p : pixels.subspan(i * image_.columns + column, pool_)) {
        sum += static_cast<unsigned char>(p);
      }
    }
    return sum;
  }

  extent image_;
  std::size_t pool_;
  dataset_builder rows_;
  std::vector<std::uint32_t> indices_;
  std::vector<float> values_;
};

std::uint32_t read_count(idx_file& images, idx_file& labels, std::string const& labels_file) {
  std::uint32_t const count = images.number("the number of images");
  std::uint32_t const label_count = labels.number("the number of labels");
  if (count == 0) images.fail("no images, expected at least one");
  if (count == label_count) return count;
  images.fail(fmt::format("{} images, expected as many as there are labels in {}, {}", count,
                          labels_file, label_count));
}

}  // namespace

dataset read_idx_images(std::string const& images_file, std::string const& labels_file,
                        idx_options const& options) {
  if (options.pool == 0) throw option_error("idx_options: pool is 0, expected at least 1");
  idx_file images(images_file, 3, "images");
  idx_file labels(labels_file, 1, "labels");
  std::uint32_t const count = read_count(images, labels, labels_file);
  extent const image = read_extent(images, options.pool);
  row_maker rows(image, options.pool);
  std::vector<char> pixels(image.area());
  std::array<char, 1> label{};
  for (std::uint32_t i = 0; i < count; ++i) {
    images.fill(pixels, fmt::format("image {} of {}", i + 1, count));
    labels.fill(label, fmt::format("label {} of {}", i + 1, count));
    rows.add(pixels, static_cast<unsigned char>(label[0]));
  }
  images.expect_end(count, "images");
  labels.expect_end(count, "labels");
  return rows.build();
}

}  // namespace rubato::data
