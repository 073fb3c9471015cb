// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

/// A PNG file as browsers write them: 8 bits for each of red, green and blue, perhaps opacity, not interlaced.
class picture {
 public:
  explicit picture(std::filesystem::path const& file) {
    std::ifstream in(file, std::ios::binary);
    std::vector<unsigned char> const bytes(std::istreambuf_iterator<char>(in), {});
    std::vector<unsigned char> packed;
    for (std::size_t at = 8; at + 12 <= bytes.size();) {
      std::size_t const length = number(bytes, at);
      std::string const type(bytes.begin() + std::ptrdiff_t(at) + 4, bytes.begin() + std::ptrdiff_t(at) + 8);
      if (type == "IHDR") read_head(bytes, at + 8);
      if (type == "IDAT")
        packed.insert(packed.end(), bytes.begin() + std::ptrdiff_t(at) + 8,
                      bytes.begin() + std::ptrdiff_t(at + 8 + length));
      at += length + 12;
    }
    if (width_ == 0) throw std::runtime_error("no PNG: " + file.string());
    unpack(packed);
  }

  [[nodiscard]] std::size_t width() const { return width_; }
  [[nodiscard]] std::size_t height() const { return height_; }
  /// 0xRRGGBB
  [[nodiscard]] std::uint32_t at(std::size_t x, std::size_t y) const {
    unsigned char const* p = &pixels_[(y * width_ + x) * channels_];
    return std::uint32_t{p[0]} << 16 | std::uint32_t{p[1]} << 8 | p[2];
  }
  [[nodiscard]] std::size_t count(std::uint32_t colour) const {
    std::size_t n = 0;
    for (std::size_t y = 0; y < height_; ++y)
      for (std::size_t x = 0; x < width_; ++x) n += at(x, y) == colour;
    return n;
  }

 private:
  static std::size_t number(std::vector<unsigned char> const& b, std::size_t at) {
    return std::size_t{b[at]} << 24 | std::size_t{b[at + 1]} << 16 | std::size_t{b[at + 2]} << 8 | b[at + 3];
  }
  void read_head(std::vector<unsigned char> const& b, std::size_t at) {
    width_ = number(b, at);
    height_ = number(b, at + 4);
    channels_ = b[at + 9] == 6 ? 4 : 3;
    if (b[at + 8] != 8 || (b[at + 9] != 2 && b[at + 9] != 6) || b[at + 12] != 0)
      throw std::runtime_error("a kind of PNG that is not read");
  }
  void unpack(std::vector<unsigned char> const& packed) {
    std::size_t const line = width_ * channels_;
    std::vector<unsigned char> raw(height_ * (line + 1));
    uLongf size = raw.size();
    if (uncompress(raw.data(), &size, packed.data(), packed.size()) != Z_OK || size != raw.size())
      throw std::runtime_error("a PNG that is broken");
    pixels_.resize(height_ * line);
    for (std::size_t y = 0; y < height_; ++y)
      for (std::size_t i = 0; i < line; ++i) {
        int const left = i < channels_ ? 0 : pixels_[y * line + i - channels_];
        int const up = y == 0 ? 0 : pixels_[(y - 1) * line + i];
        int const corner = y == 0 || i < channels_ ? 0 : pixels_[(y - 1) * line + i - channels_];
        int const base[] = {0, left, up, (left + up) / 2, nearest(left, up, corner)};
        pixels_[y * line + i] = static_cast<unsigned char>(raw[y * (line + 1) + 1 + i] + base[raw[y * (line + 1)] % 5]);
      }
  }
  /// Paeth's.
  static int nearest(int left, int up, int corner) {
    int const p = left + up - corner, a = std::abs(p - left), b = std::abs(p - up), c = std::abs(p - corner);
    return a <= b && a <= c ? left : b <= c ? up : corner;
  }

  std::size_t width_ = 0, height_ = 0, channels_ = 3;
  std::vector<unsigned char> pixels_;
};
