// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/reactor.hpp"

#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "rubato/net/impl/reactor_state.hpp"

namespace rubato::net {
namespace {

struct alarm {
  boost::asio::steady_timer timer;
  std::function<void()> ring;
};

}  // namespace

reactor::reactor() : state_(std::make_unique<state>()) {}
reactor::~reactor() = default;

void reactor::run_one(clock::time_point deadline) {
  auto& context = state_->context;
  if (deadline == clock::time_point::max())
    context.run_one();
  else if (deadline <= clock::now())
    context.poll_one();  // run_one_until would handle nothing at all
  else
    context.run_one_until(deadline);
}

void reactor::poll() { state_->context.poll(); }

void reactor::interrupt() noexcept {
  // One that nobody has seen yet serves all callers.
  if (state_->interrupted.exchange(true)) return;
  try {
    boost::asio::post(state_->context, [s = state_.get()] {
      // Reads what the callers wrote before, so that whoever waits sees what they want.
      s->interrupted.exchange(false);
    });
  } catch (...) {
    state_->interrupted = false;  // no memory: the next call tries again
  }
}

std::shared_ptr<void> reactor::at(clock::time_point when, std::function<void()> f) {
  auto const one = std::make_shared<alarm>(
      alarm{boost::asio::steady_timer(state_->context, when), std::move(f)});
  one->timer.async_wait([weak = std::weak_ptr<alarm>(one)](boost::system::error_code const& error) {
    // The handle may have been dropped when the time was up already.
    auto const still_wanted = weak.lock();
    if (still_wanted && !error) still_wanted->ring();
  });
  return one;
}

}  // namespace rubato::net
