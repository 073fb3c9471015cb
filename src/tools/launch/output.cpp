// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "src/tools/launch/output.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include <boost/asio/post.hpp>

#include "src/tools/launch/process.hpp"

namespace rubato::launch {

std::string line_maker::add(std::string_view bytes) {
  std::string lines;
  while (!bytes.empty()) {
    // One byte more than fits, so that the newline of a line just short enough is still seen.
    auto const some = bytes.substr(0, longest + 1 - line_.size());
    auto const newline = some.find('\n');
    auto const taken = std::min(newline, some.size());
    line_ += some.substr(0, taken);
    bytes.remove_prefix(newline == std::string_view::npos ? taken : taken + 1);
    if (newline != std::string_view::npos) {
      end_line(lines);
    } else if (line_.size() > longest) {
      char const first_of_next = line_.back();
      line_.pop_back();
      end_line(lines);
      line_ = first_of_next;
    }
  }
  return lines;
}

std::string line_maker::finish() {
  std::string lines;
  if (!line_.empty()) end_line(lines);
  return lines;
}

void line_maker::end_line(std::string& lines) {
  lines += prefix_;
  lines += line_;
  lines += '\n';
  line_.clear();
}

namespace {

constexpr std::size_t enough = std::size_t{1} << 18;
// Where those who died could not wait: each leaves what a pipe holds.
constexpr std::size_t most = std::size_t{1} << 26;

// What a pipe takes whole or not at all, so that lines stay whole even if the rest never follows.
std::string_view first_piece(std::string_view lines) noexcept {
  auto const piece = lines.substr(0, PIPE_BUF);
  auto const newline = piece.rfind('\n');
  return newline == std::string_view::npos ? piece : piece.substr(0, newline + 1);
}

// 0, or the system's number of what is wrong.
int write_all(int to, std::string_view text) noexcept {
  while (!text.empty()) {
    ssize_t const written = ::write(to, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      // Who shares this end of the pipe may have made it non-blocking.
      pollfd writable{.fd = to, .events = POLLOUT, .revents = 0};
      ::poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

struct outlet::shared : std::enable_shared_from_this<shared> {
  shared(boost::asio::io_context& context, int where, outlet& of)
      : to(where), io(context), owner(&of) {}

  [[nodiscard]] std::size_t kept() const noexcept { return lines.size() + being_written; }

  // Until `owner` is gone. Blocks where the system does.
  void write_lines() {
    std::unique_lock guard(lock);
    while (true) {
      changed.wait(guard, [this] { return owner == nullptr || !lines.empty(); });
      if (owner == nullptr) return;
      std::string const taken = std::exchange(lines, {});
      being_written = taken.size();
      write_pieces(guard, taken);
      tell_owner();
    }
  }

  void write_pieces(std::unique_lock<std::mutex>& guard, std::string_view rest) {
    while (!rest.empty() && owner != nullptr) {
      auto const piece = first_piece(rest);
      guard.unlock();
      int const wrong = write_all(to, piece);
      guard.lock();
      rest.remove_prefix(piece.size());
      bool const was_full = kept() >= enough;
      being_written = rest.size();
      if (wrong != 0) return fail(wrong);
      if (was_full && kept() < enough) tell_owner();
    }
  }

  void fail(int wrong) {
    being_written = 0;
    lines.clear();
    failure = wrong;
    is_gone = wrong == EPIPE;
  }

  void tell_owner() {
    if (owner == nullptr) return;
    boost::asio::post(io, [one = shared_from_this()] {
      // Only the thread of `io` changes it.
      if (one->owner != nullptr) one->owner->look();
    });
  }

  int to;
  boost::asio::io_context& io;  // there while `owner` is
  std::mutex lock;
  std::condition_variable changed;
  outlet* owner;
  std::string lines;
  std::size_t being_written = 0;
  int failure = 0;
  bool is_gone = false;
};

outlet::outlet(boost::asio::io_context& io, int to, user told)
    : shared_(std::make_shared<shared>(io, to, *this)), user_(std::move(told)) {}

outlet::~outlet() {
  {
    std::lock_guard const guard(shared_->lock);
    shared_->owner = nullptr;
  }
  shared_->changed.notify_one();
}

bool outlet::is_full() const {
  std::lock_guard const guard(shared_->lock);
  return shared_->kept() >= enough;
}

bool outlet::is_empty() const {
  std::lock_guard const guard(shared_->lock);
  return shared_->kept() == 0 && shared_->failure == 0;  // which is still to be told
}

bool outlet::add(std::string_view lines) {
  {
    std::lock_guard const guard(shared_->lock);
    if (shared_->is_gone) return false;
    if (shared_->kept() + lines.size() <= most) {
      shared_->lines += lines;
      lines = {};
    }
  }
  start_writing();
  shared_->changed.notify_one();
  if (!lines.empty() && !std::exchange(has_lost_, true)) user_.failed("nobody has read it for long");
  return true;
}

// Not before there are lines: children are best made while this process has one thread. Signals are
// for that one.
void outlet::start_writing() {
  if (std::exchange(writes_, true)) return;
  signals_blocked const here;
  std::thread([one = shared_] { one->write_lines(); }).detach();
}

void outlet::look() {
  int failure = 0;
  {
    std::lock_guard const guard(shared_->lock);
    failure = std::exchange(shared_->failure, 0);
  }
  if (failure == EPIPE) user_.nobody_reads();
  else if (failure != 0 && !std::exchange(has_failed_, true)) user_.failed(std::strerror(failure));
  if (!is_full())
    for (auto const& one : std::exchange(waiting_, {})) one();
  if (is_empty()) user_.emptied();
}

bool are_same(int one, int other) noexcept {
  struct stat first {};
  struct stat second {};
  return ::fstat(one, &first) == 0 && ::fstat(other, &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

forwarder::forwarder(boost::asio::io_context& io, file_handle from, outlet& to, std::string prefix,
                     std::function<void()> nobody_reads)
    : from_(io, from.get()),
      to_(to),
      lines_(std::move(prefix)),
      nobody_reads_(std::move(nobody_reads)),
      buffer_(line_maker::longest) {
  static_cast<void>(from.release());
  from_.non_blocking(true);
}

void forwarder::start() { wait(); }

void forwarder::wait() {
  // The process waits as well, once its pipe is full.
  if (to_.is_full()) return to_.call_when_not_full([self = shared_from_this()] { self->wait(); });
  // Waits and reads apart, so that no read is ever under way when `finish` takes the rest.
  from_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                   [self = shared_from_this()](boost::system::error_code const& failure) {
                     if (failure || !self->from_.is_open()) return;
                     if (self->to_.is_full()) return self->wait();
                     if (self->take() == found::end) return self->finish();
                     self->wait();
                   });
}

void forwarder::finish() {
  if (!from_.is_open()) return;
  // Bounded, for somebody who left the process's group may go on writing; a pipe holds less.
  constexpr int looks_max = 64;
  for (int look = 0; look < looks_max && take() == found::bytes; ++look) continue;
  pass_on(lines_.finish());
  boost::system::error_code ignored;
  from_.close(ignored);
}

forwarder::found forwarder::take() {
  ssize_t const got = ::read(from_.native_handle(), buffer_.data(), buffer_.size());
  if (got > 0) {
    pass_on(lines_.add({buffer_.data(), static_cast<std::size_t>(got)}));
    return found::bytes;
  }
  bool const later = got < 0 && (errno == EAGAIN || errno == EINTR);
  return later ? found::nothing_yet : found::end;
}

void forwarder::pass_on(std::string const& lines) {
  if (!to_.add(lines) && nobody_reads_) std::exchange(nobody_reads_, nullptr)();
}

}  // namespace rubato::launch
