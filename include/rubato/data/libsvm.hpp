// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <rubato/data/dataset.hpp>

namespace rubato::data {

/// What the labels of a file mean.
enum class label_kind {
  binary,          ///< one of the next three, told apart by the labels that occur; a file in which
                   ///< only 1 occurs is taken as positive
  plus_minus_one,  ///< -1 and +1
  zero_one,        ///< 0 becomes -1
  one_two,         ///< 1 becomes -1, 2 becomes +1
  raw,             ///< any finite number, kept as it is: regression, several classes
};

/// How to read LIBSVM text.
struct libsvm_options {
  label_kind labels = label_kind::binary;  ///< what the numbers in the first column mean
  /// Number of features of the result; an index beyond it is an error. 0: the largest index found.
  /// Set it to the train set's when reading a test set, in which the last features may not occur.
  std::size_t features = 0;
  /// With `features` 0, the largest index that is believed: one flipped digit must not ask every
  /// model for gigabytes. At most 2^32.
  std::size_t features_max = std::size_t{1} << 28;
};

/// Reads a file in LIBSVM (SVMlight) format, `label index:value index:value ...` with indices from
/// 1 in increasing order; in the result they start at 0.
///
/// Gzip is recognised by content. Fields are separated by blanks, tabs or carriage returns (so CRLF
/// files work); `#` starts a comment; lines without a field are skipped; a row may have no
/// features; the last newline may be missing. The file is read in blocks: memory is a constant plus
/// the result, however long the lines are.
///
/// Throws data_error: `file:line: reason, expected ...` for a malformed line; `file: reason` for a
/// broken gzip stream, a file that is packed otherwise (bzip2, xz, zstd, zip; it says what unpacks it),
/// one without examples, or (with errc::io) one that cannot be read.
/// Throws option_error when the options contradict themselves. Any bytes give a result or one of
/// these. Cost: O(bytes).
[[nodiscard]] dataset read_libsvm(std::string const& path, libsvm_options const& options = {});

/// The same for text in memory (not compressed); `name` stands for the file in errors.
[[nodiscard]] dataset parse_libsvm(std::string_view text, std::string_view name,
                                   libsvm_options const& options = {});

}  // namespace rubato::data
