// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/impl/name_look_up.hpp"

#include <pthread.h>
#include <signal.h>

#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>

namespace rubato::net {

struct name_look_up::shared {
  std::mutex lock;
  boost::asio::io_context* context;  // of who waits, if anybody does
  answered then;                     // only touched from inside the context
};

namespace {

name_look_up::results answer(name_look_up::asking const& ask, boost::system::error_code& error) {
  try {
    return ask(error);
  } catch (boost::system::system_error const& e) {  // no files
    error = e.code();
  } catch (std::bad_alloc const&) {
    error = boost::asio::error::no_memory;
  }
  return {};
}

void ask_and_tell(name_look_up::asking const& ask, auto const& to) noexcept {
  try {
    boost::system::error_code error;
    auto found = answer(ask, error);
    std::lock_guard const guard(to->lock);
    if (to->context == nullptr) return;
    boost::asio::post(*to->context, [to, error, found = std::move(found)] {
      if (auto const then = std::exchange(to->then, nullptr)) then(error, found);
    });
  } catch (...) {  // no memory even to tell: who waits does so no longer than for anybody who does not answer
  }
}

/// Signals are for the program's own threads.
class signals_kept_off {
 public:
  signals_kept_off() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  signals_kept_off(signals_kept_off const&) = delete;
  signals_kept_off& operator=(signals_kept_off const&) = delete;
  ~signals_kept_off() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace

name_look_up::name_look_up(boost::asio::io_context& context, asking ask, answered then)
    : shared_(std::make_shared<shared>()) {
  shared_->context = &context;
  shared_->then = std::move(then);
  signals_kept_off const meanwhile;
  std::thread([ask = std::move(ask), to = shared_] { ask_and_tell(ask, to); }).detach();
}

name_look_up::~name_look_up() {
  shared_->then = nullptr;
  std::lock_guard const guard(shared_->lock);
  shared_->context = nullptr;
}

name_look_up::asking numbers_of(address const& at) {
  return [host = at.host, port = std::to_string(at.port)](boost::system::error_code& error) {
    boost::asio::io_context own;
    return boost::asio::ip::tcp::resolver(own).resolve(host, port, error);
  };
}

}  // namespace rubato::net
