// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "src/tools/launch/output.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include <boost/asio/error.hpp>

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

outlet::outlet(boost::asio::io_context& io, int to, user told)
    : to_(to), own_(io), user_(std::move(told)) {
  open_without_waiting();
}

// O_NONBLOCK belongs to what is open, which this process shares with its shell and others: they
// would find it set, and so for good if this process is killed. So a pipe or terminal is opened
// again. Where that is not allowed, as with another user's terminal, pieces that a pipe takes whole
// are written when the system says that there is room; then only a stop just at that time is waited
// for.
void outlet::open_without_waiting() {
  struct stat what {};
  if (::fstat(to_, &what) != 0) return;
  if (!S_ISFIFO(what.st_mode) && !S_ISSOCK(what.st_mode) && ::isatty(to_) == 0) return;
  auto const path = "/proc/self/fd/" + std::to_string(to_);
  file_handle own(S_ISSOCK(what.st_mode)
                      ? -1
                      : ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  way const possible = S_ISSOCK(what.st_mode) ? way::socket
                       : own.get() >= 0       ? way::own_description
                                              : way::shared_description;
  if (own.get() < 0) own = file_handle(::fcntl(to_, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  boost::system::error_code failure;
  own_.assign(own.get(), failure);
  if (failure) return;
  static_cast<void>(own.release());
  way_ = possible;
}

bool outlet::add(std::string_view lines) {
  if (is_gone_) return false;
  if (kept() + lines.size() > most) {
    if (!std::exchange(has_lost_, true)) user_.failed("nobody has read it for long");
    return true;
  }
  // After an error only a part of a line may be there.
  if (is_empty() && line_is_open_ && !lines.empty()) lines_ += '\n';
  lines_ += lines;
  if (!is_waiting_) drain();
  return !is_gone_;
}

void outlet::drain() {
  while (!is_empty()) {
    auto const piece = next_piece();
    auto const written = write(piece);
    if (written > 0) {
      line_is_open_ = piece[static_cast<std::size_t>(written) - 1] != '\n';
      written_ += static_cast<std::size_t>(written);
    } else if (written == 0 || errno == EAGAIN) {
      return wait();
    } else if (errno != EINTR) {
      return fail(errno);
    }
  }
  lines_.clear();
  written_ = 0;
}

// A pipe takes a piece whole or not at all, so that lines stay whole even if the rest never follows.
std::string_view outlet::next_piece() const noexcept {
  auto const all = std::string_view(lines_).substr(written_);
  if (way_ == way::at_once || all.size() <= PIPE_BUF) return all;
  auto const piece = all.substr(0, PIPE_BUF);
  auto const newline = piece.rfind('\n');
  return newline == std::string_view::npos ? piece : piece.substr(0, newline + 1);
}

// 0 if not now, else as the system's.
long outlet::write(std::string_view piece) noexcept {
  if (way_ == way::socket)
    return ::send(to_, piece.data(), piece.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (way_ == way::own_description)
    return ::write(own_.native_handle(), piece.data(), piece.size());
  pollfd room{.fd = to_, .events = POLLOUT, .revents = 0};
  if (way_ == way::shared_description && ::poll(&room, 1, 0) == 0) return 0;
  return ::write(to_, piece.data(), piece.size());
}

void outlet::wait() {
  constexpr std::size_t worth_moving = enough / 2;
  if (written_ >= worth_moving) lines_.erase(0, std::exchange(written_, 0));
  is_waiting_ = true;
  own_.async_wait(boost::asio::posix::stream_descriptor::wait_write,
                  [this](boost::system::error_code const& failure) {
                    if (failure == boost::asio::error::operation_aborted) return;
                    is_waiting_ = false;
                    if (failure) fail(failure.value());
                    else drain();
                    if (is_gone_) user_.nobody_reads();
                    if (!is_full()) call_waiting();
                    if (is_empty()) user_.emptied();
                  });
}

void outlet::call_waiting() {
  for (auto const& one : std::exchange(waiting_, {})) one();
}

void outlet::fail(int why) {
  lines_.clear();
  written_ = 0;
  is_gone_ = why == EPIPE;
  if (!is_gone_ && !std::exchange(has_failed_, true)) user_.failed(std::strerror(why));
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
