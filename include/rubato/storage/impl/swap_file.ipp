// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/storage/swap_file.hpp"

namespace rubato {

namespace {
std::string directory_of_temporary_files() {
  std::error_code why;
  auto const found = std::filesystem::temp_directory_path(why);
  if (!why) return found.string();
  char const* const set = std::getenv("TMPDIR");
  throw option_error("paging: no directory is named, and that of temporary files cannot be had (" + why.message() +
                     "): TMPDIR is '" + (set == nullptr ? "" : set) + "', expected a directory that exists");
}
}  // namespace

swap_file::swap_file(std::string directory) : directory_(std::move(directory)) {
  std::error_code why;
  if (directory_.empty()) directory_ = directory_of_temporary_files();
  if (!std::filesystem::is_directory(directory_, why))
    throw option_error("paging: directory is '" + directory_ + "', expected a directory that exists");
}

swap_file::~swap_file() {
  if (file_ >= 0) ::close(file_);
}

void swap_file::open() {
  std::string name = (std::filesystem::path(directory_) / "rubato-swap-XXXXXX").string();
  file_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (file_ < 0) fail("be made", errno);
  ::unlink(name.c_str());
}

void swap_file::write(std::uint64_t at, std::span<std::byte const> bytes) {
  if (file_ < 0) open();
  while (!bytes.empty()) {
    ssize_t const n = ::pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail("be written", n < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    at += static_cast<std::uint64_t>(n);
  }
}

void swap_file::read(std::uint64_t at, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    ssize_t const n = ::pread(file_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail("be read", n < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    at += static_cast<std::uint64_t>(n);
  }
}

void swap_file::fail(char const* what, int why) const {
  throw error(errc::io, "paging: the file in '" + directory_ + "' could not " + what + ": " + std::strerror(why));
}

}  // namespace rubato
