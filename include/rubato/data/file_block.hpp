// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <rubato/core/ids.hpp>
#include <rubato/data/dataset.hpp>
#include <rubato/data/libsvm.hpp>

namespace rubato::data {

/// Some lines of a file: all that begin at a byte from `begin` up to, but not at, `end`. The last one may go on
/// beyond it; so blocks that cover a file hold each of its lines once, wherever they are cut.
struct file_block {
  std::string file;  ///< the file's path
  std::uint64_t begin = 0;  ///< in bytes from the file's beginning
  std::uint64_t end = std::numeric_limits<std::uint64_t>::max();  ///< may be beyond the file's
  std::vector<node_id> nodes{};                                   ///< where it lies; empty: as near to all

  friend bool operator==(file_block const&, file_block const&) = default;
};

/// Cuts a file into blocks of `bytes`, the last one perhaps smaller, as a distributed file system does. One
/// that is compressed by gzip can only be read from its beginning: it is one block.
/// @param nodes where the whole file lies, see `file_block::nodes`
/// @throws data_error (errc::io) when it cannot be read, (errc::bad_data) when it is packed otherwise; option_error
/// when it would be no block, or over 2^20
[[nodiscard]] std::vector<file_block> split_file(std::string const& path, std::uint64_t bytes,
                                                 std::vector<node_id> const& nodes = {});

/// Reads a block as `read_libsvm` reads a file; one in which no line begins has no rows. Memory is a constant
/// plus the result.
///
/// A block does not show what all of its file does: the options must say the kind of labels and the number of
/// features. Line numbers in errors count from the block's first.
/// @throws as `read_libsvm`; option_error also for `label_kind::binary` and 0 features
[[nodiscard]] dataset read_libsvm(file_block const& block, libsvm_options const& options);

}  // namespace rubato::data
