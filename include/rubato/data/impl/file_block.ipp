// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "rubato/core/error.hpp"
#include "rubato/data/file_block.hpp"
#include "rubato/data/impl/packed.hpp"

namespace rubato::data {
namespace {

/// Whether it is gzip. @throws data_error for another format
bool is_compressed(std::string const& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::array<char, packed_magic_size> magic{};
  in.read(magic.data(), magic.size());
  if (in.bad() || (!in.is_open()))
    throw data_error(fmt::format("{}: cannot open: {}", path, std::generic_category().message(errno)), errc::io);
  std::string_view const begin(magic.data(), static_cast<std::size_t>(in.gcount()));
  refuse_packed(path, begin);
  return begin.size() >= 2 && magic[0] == '\x1f' && magic[1] == '\x8b';
}

}  // namespace

std::vector<file_block> split_file(std::string const& path, std::uint64_t bytes,
                                   std::vector<node_id> const& nodes) {
  constexpr std::uint64_t blocks_max = std::uint64_t{1} << 20;
  if (bytes == 0) throw option_error("split_file: blocks of 0 bytes, expected at least 1");
  if (is_compressed(path)) return {{.file = path, .nodes = nodes}};
  std::error_code failed;
  std::uint64_t const size = std::filesystem::file_size(path, failed);
  if (failed) throw data_error(fmt::format("{}: cannot read: {}", path, failed.message()), errc::io);
  if (size / bytes >= blocks_max)
    throw option_error(fmt::format("split_file: {} has {} bytes: over {} blocks of {} bytes, expected larger ones",
                                   path, size, blocks_max, bytes));
  std::vector<file_block> all;
  for (std::uint64_t at = 0; at < size; at += bytes) all.push_back({path, at, std::min(at + bytes, size), nodes});
  return all;
}

}  // namespace rubato::data
