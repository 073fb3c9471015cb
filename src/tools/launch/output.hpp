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

/// A standard stream of this process. Written by a thread of its own, so that this process does not wait
/// for whoever reads it; what cannot be written yet is kept, in whole lines.
///
/// An error other than that nobody reads, such as a full disk, does not end the run, whose result is
/// worth more than its log: it is told once, and lines are lost as long as it lasts.
class outlet {
 public:
  /// Who hears of what happens to it, from inside of `io`.
  struct user {
    std::function<void()> nobody_reads;  ///< any more
    std::function<void(std::string const& why)> failed;
    std::function<void()> emptied;  ///< everything that was kept has been written
  };

  outlet(boost::asio::io_context& io, int to, user told);
  outlet(outlet const&) = delete;
  outlet& operator=(outlet const&) = delete;
  /// What is still kept is given up.
  ~outlet();

  /// False if nobody can read it any more.
  bool add(std::string_view lines);
  /// Whether those who can wait should, until they are called.
  [[nodiscard]] bool is_full() const;
  void call_when_not_full(std::function<void()> waiting) { waiting_.push_back(std::move(waiting)); }
  [[nodiscard]] bool is_empty() const;

 private:
  struct shared;

  void start_writing();
  void look();

  std::shared_ptr<shared> shared_;  ///< with the thread, which a write may hold up for ever
  user user_;
  bool writes_ = false;
  bool has_failed_ = false;
  bool has_lost_ = false;
  std::vector<std::function<void()>> waiting_;
};

/// Whether two descriptors lead to the same file, pipe or terminal.
[[nodiscard]] bool are_same(int one, int other) noexcept;

/// Passes on what a process writes to one of its streams.
class forwarder : public std::enable_shared_from_this<forwarder> {
 public:
  /// `nobody_reads` is called when `to` is gone; what comes afterwards is read and thrown away.
  forwarder(boost::asio::io_context& io, file_handle from, outlet& to, std::string prefix,
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
  outlet& to_;
  line_maker lines_;
  std::function<void()> nobody_reads_;
  std::vector<char> buffer_;
};

}  // namespace rubato::launch
