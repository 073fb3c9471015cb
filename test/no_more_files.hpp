// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>

namespace rubato::test {

/// While it lives this process can open no file and no socket. Assert on what happened afterwards:
/// clang's check of virtual calls needs a pipe for each class that it has not met, such as an
/// assertion's, and takes the missing one for a broken object.
class no_more_files {
 public:
  no_more_files() {
    int const next = ::socket(AF_UNIX, SOCK_STREAM, 0);  // all numbers below it are taken
    if (next < 0 || ::getrlimit(RLIMIT_NOFILE, &before_) != 0)
      throw std::runtime_error("no_more_files: no socket, or no limit");
    ::close(next);
    rlimit now = before_;
    now.rlim_cur = static_cast<rlim_t>(next);
    if (::setrlimit(RLIMIT_NOFILE, &now) != 0)
      throw std::runtime_error("no_more_files: the limit cannot be set");
  }
  no_more_files(no_more_files const&) = delete;
  no_more_files& operator=(no_more_files const&) = delete;
  ~no_more_files() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace rubato::test
