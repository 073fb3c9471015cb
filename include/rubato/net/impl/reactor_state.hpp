// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include "rubato/net/reactor.hpp"

namespace rubato::net {

struct reactor::state {
  // The hint saves wakeups, and keeps the locks that `interrupt` needs.
  boost::asio::io_context context{1};
  // A context that has run out of work is stopped, and would never wait again.
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{
      context.get_executor()};
  std::atomic<bool> interrupted = false;
};

}  // namespace rubato::net
