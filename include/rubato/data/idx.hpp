// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <string>

#include <rubato/data/dataset.hpp>

namespace rubato::data {

/// How to read images.
struct idx_options {
  /// Side of the squares of pixels whose mean becomes one feature: 2 makes 14 x 14 of MNIST's
  /// 28 x 28. It must divide both sides of the images. At least 1.
  std::size_t pool = 1;
};

/// Reads images and their labels from two files in idx format, the one that MNIST comes in: bytes
/// of unsigned numbers behind a magic number and the sizes, all big-endian.
///
/// Each image becomes a sparse row, line after line, of pixels / 255; black ones are not stored.
/// The label is the image's byte, for MNIST the digit. Gzip is recognised by content.
///
/// Throws data_error that names the file: one that cannot be opened (with errc::io), is packed otherwise
/// (bzip2, xz), is no idx file of images or labels, ends too early or goes on too long, holds no images,
/// images without pixels or of more than 2^24, or has another count than the other file. Nothing is allocated for what
/// a header promises beyond one image. Throws option_error for a `pool` of 0. Any bytes give a result or one of these.
/// Cost: O(pixels).
[[nodiscard]] dataset read_idx_images(std::string const& images_file,
                                      std::string const& labels_file,
                                      idx_options const& options = {});

}  // namespace rubato::data
