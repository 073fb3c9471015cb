// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/impl/acceptor.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <system_error>

#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include "rubato/core/error.hpp"
#include "rubato/net/impl/stream.hpp"

namespace rubato::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using endpoint = asio::generic::stream_protocol::endpoint;

[[noreturn]] void throw_io(address const& at, std::string const& what) {
  throw error(errc::io, fmt::format("cannot listen at {}: {}", at.text(), what));
}

void require(error_code const& error, address const& at) {
  if (error) throw_io(at, error.message());
}

[[noreturn]] void throw_taken(address const& at) { throw_io(at, "another process listens there"); }

// A file that a process left behind when it died is in the way, and nobody answers there.
void take_over_stale_file(asio::io_context& context, address const& at, endpoint const& where) {
  struct stat file;
  if (::lstat(at.path.c_str(), &file) != 0) return;
  if (!S_ISSOCK(file.st_mode)) throw_io(at, "there is a file that is no socket");
  socket_type probe(context);
  error_code error;
  probe.open(where.protocol(), error);
  require(error, at);
  close_on_exec(probe.native_handle());
  probe.non_blocking(true, error);
  probe.connect(where, error);
  if (error != asio::error::connection_refused) throw_taken(at);
  ::unlink(at.path.c_str());
}

// Whether this open file is the one of this name.
bool is_at(int file, std::string const& path) {
  struct stat open;
  struct stat there;
  return ::fstat(file, &open) == 0 && ::lstat(path.c_str(), &there) == 0 &&
         open.st_dev == there.st_dev && open.st_ino == there.st_ino;
}

endpoint tcp_endpoint(asio::io_context& context, address const& at) {
  error_code error;
  auto const number = asio::ip::make_address(at.host, error);
  if (!error) return tcp::endpoint(number, at.port);
  auto const found = tcp::resolver(context).resolve(at.host, std::to_string(at.port),
                                                    tcp::resolver::passive, error);
  require(error, at);
  return found.begin()->endpoint();
}

void bind_unix(acceptor_type& acceptor, asio::io_context& context, address const& at) {
  auto const where = unix_endpoint(at);
  take_over_stale_file(context, at, where);
  error_code error;
  acceptor.open(where.protocol(), error);
  require(error, at);
  close_on_exec(acceptor.native_handle());
  acceptor.bind(where, error);
  require(error, at);
  // Nobody can connect before `listen`, so nobody can who may not.
  if (::chmod(at.path.c_str(), S_IRUSR | S_IWUSR) != 0) throw_io(at, std::strerror(errno));
}

void bind_tcp(acceptor_type& acceptor, asio::io_context& context, address const& at) {
  auto const where = tcp_endpoint(context, at);
  error_code error;
  acceptor.open(where.protocol(), error);
  require(error, at);
  close_on_exec(acceptor.native_handle());
  if (at.is_loopback()) send_unpaced(acceptor.native_handle());
  acceptor.set_option(acceptor_type::reuse_address(true), error);
  require(error, at);
  acceptor.bind(where, error);
  require(error, at);
}

/// Sockets of such chosen names whose processes have died. Who lives has the lock before there is a socket.
void remove_left_behind(std::string const& prefix) {
  namespace files = std::filesystem;
  std::error_code none;
  for (files::directory_iterator at(files::path(prefix + "x").parent_path(), none), end; !none && at != end;
       at.increment(none)) {
    std::string const path = at->path().string();
    std::error_code gone;
    bool const is_chosen = path.starts_with(prefix) && path.size() == prefix.size() + 16 &&
                           path.find_first_not_of("0123456789abcdef", prefix.size()) == std::string::npos;
    if (!is_chosen || !files::is_socket(at->symlink_status(gone))) continue;
    try {
      path_lock const mine({.host = {}, .port = 0, .path = path});
      ::unlink(path.c_str());
    } catch (error const&) {  // it lives, or is another user's
    }
  }
}

}  // namespace

void close_on_exec(int socket) noexcept { ::fcntl(socket, F_SETFD, FD_CLOEXEC); }

endpoint unix_endpoint(address const& at) {
  try {
    return asio::local::stream_protocol::endpoint(at.path);
  } catch (boost::system::system_error const&) {
    throw option_error(fmt::format(
        "the address {}: a Unix-domain socket's path has at most 107 bytes, this has {}", at.text(),
        at.path.size()));
  }
}

/// At random: processes in containers have the same numbers, and who has died may have left its file.
address chosen(address at) {
  if (!at.is_unix() || at.path.back() != '*') return at;
  at.path.pop_back();
  remove_left_behind(at.path);
  std::random_device random;
  at.path += fmt::format("{:08x}{:08x}", random(), random());
  return at;
}

path_lock::path_lock(address const& at) {
  if (!at.is_unix()) return;
  (void)unix_endpoint(at);
  path_ = at.path + ".lock";
  for (;;) {
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
    if (file_ < 0) throw_io(at, std::strerror(errno));
    if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
      int const why = errno;
      ::close(file_);
      if (why == EWOULDBLOCK) throw_taken(at);
      throw_io(at, std::strerror(why));
    }
    // Whoever held it before may have removed it, and another have made a new one.
    if (is_at(file_, path_)) return;
    ::close(file_);
  }
}

path_lock::~path_lock() {
  if (file_ < 0) return;
  if (is_at(file_, path_)) ::unlink(path_.c_str());
  ::close(file_);
}

acceptor_type listen_at(asio::io_context& context, address const& at) try {
  acceptor_type acceptor(context);
  if (at.is_unix())
    bind_unix(acceptor, context, at);
  else
    bind_tcp(acceptor, context, at);
  error_code error;
  acceptor.listen(acceptor_type::max_listen_connections, error);
  require(error, at);
  return acceptor;
} catch (boost::system::system_error const& e) {  // what the first socket needs beside it
  throw_io(at, e.code().message());
}

address bound_address(acceptor_type const& acceptor, address const& asked) {
  if (asked.is_unix()) return asked;
  error_code error;
  auto const local = acceptor.local_endpoint(error);
  require(error, asked);
  tcp::endpoint as_tcp;
  std::memcpy(as_tcp.data(), local.data(), local.size());
  address result = asked;
  result.port = as_tcp.port();
  return result;
}

socket_file::socket_file(std::string path) : path_(std::move(path)) {
  struct stat file;
  if (path_.empty() || ::lstat(path_.c_str(), &file) != 0) return;
  device_ = file.st_dev;
  number_ = file.st_ino;
}

socket_file::~socket_file() {
  struct stat file;
  if (path_.empty() || ::lstat(path_.c_str(), &file) != 0) return;
  if (file.st_dev == device_ && file.st_ino == number_) ::unlink(path_.c_str());
}

}  // namespace rubato::net
