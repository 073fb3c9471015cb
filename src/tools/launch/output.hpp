// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "src/tools/launch/process.hpp"

namespace rubato::launch {

/// Makes whole lines with a prefix of bytes that come in pieces.
class line_maker {
 public:
  /// A longer line becomes several.
  static constexpr std::size_t longest = 65536;

  explicit line_maker(std::string prefix) : prefix_(std::move(prefix)) {}

  /// All lines that `bytes` complete.
  [[nodiscard]] std::string add(std::string_view bytes);
  /// The unfinished last line, if there is one, with a newline.
  [[nodiscard]] std::string finish();

 private:
  void end_line(std::string& lines);

  std::string prefix_;
  std::string line_;  // that is not complete yet
};

/// All of it, in one piece as far as the system lets it. False if nobody can read it any more.
[[nodiscard]] bool write_all(int to, std::string_view text) noexcept;

/// Passes on what a process writes to one of its streams.
class forwarder : public std::enable_shared_from_this<forwarder> {
 public:
  /// `nobody_reads` is called when `to` is gone; what comes afterwards is read and thrown away.
  forwarder(boost::asio::io_context& io, file_handle from, int to, std::string prefix,
            std::function<void()> nobody_reads);

  void start();
  /// Passes on what is there already and then no more, even where somebody has the other end yet.
  void finish();

 private:
  // What a look at the stream came to.
  enum class found { bytes, nothing_yet, end };

  void wait();
  found take();
  void pass_on(std::string const& lines);

  boost::asio::posix::stream_descriptor from_;
  int to_;
  line_maker lines_;
  std::function<void()> nobody_reads_;
  std::vector<char> buffer_;
};

}  // namespace rubato::launch
