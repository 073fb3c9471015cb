// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "rubato/core/error.hpp"

namespace rubato::data {

/// What files begin with that are packed in a way that is not read here, and what unpacks them.
struct packed_format {
  std::string_view begins_with;
  std::string_view name;
  std::string_view command;
};

inline constexpr std::size_t packed_magic_size = 4;
inline constexpr packed_format packed_formats[] = {
    {"BZh", "bzip2", "bunzip2 -k"},  // and the block size, from 1 to 9
    {"\xfd"
     "7zX",
     "xz", "xz -dk"},
    {"\x28\xb5\x2f\xfd", "zstd", "zstd -d"},
    {"PK\x03\x04", "zip", "unzip"},
};

/// @param begin the file's first `packed_magic_size` bytes, or as many as it has
/// @throws data_error for one that is packed; names it, its format and the command that unpacks it
inline void refuse_packed(std::string const& path, std::string_view begin) {
  for (packed_format const& f : packed_formats) {
    if (!begin.starts_with(f.begins_with)) continue;
    if (f.name == "bzip2" && (begin.size() < 4 || begin[3] < '1' || begin[3] > '9')) continue;
    throw data_error(fmt::format("{}: packed by {}, expected text, or gzip: {} '{}' unpacks it", path, f.name,
                                 f.command, path));
  }
}

}  // namespace rubato::data
