// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "src/tools/launch/output.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

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

bool write_all(int to, std::string_view text) noexcept {
  while (!text.empty()) {
    ssize_t const written = ::write(to, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      // Who shares this end of the pipe may have made it non-blocking.
      pollfd writable{.fd = to, .events = POLLOUT, .revents = 0};
      ::poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

forwarder::forwarder(boost::asio::io_context& io, file_handle from, int to, std::string prefix,
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
  // Waits and reads apart, so that no read is ever under way when `finish` takes the rest.
  from_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                   [self = shared_from_this()](boost::system::error_code const& failure) {
                     if (failure || !self->from_.is_open()) return;
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
  if (to_ < 0 || write_all(to_, lines)) return;
  to_ = -1;
  nobody_reads_();
}

}  // namespace rubato::launch
