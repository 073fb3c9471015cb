// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/impl/stream_host.hpp"

#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/error_code.hpp>

namespace rubato::net {
namespace {

struct alarm {
  boost::asio::steady_timer timer;
  std::function<void()> ring;
};

class host_in_context final : public stream_host {
 public:
  explicit host_in_context(boost::asio::io_context& context) : context_(context) {}

  clock::time_point now() const override { return clock::now(); }
  std::shared_ptr<void> at(clock::time_point when, std::function<void()> f) override {
    auto const one =
        std::make_shared<alarm>(alarm{boost::asio::steady_timer(context_, when), std::move(f)});
    one->timer.async_wait([weak = std::weak_ptr<alarm>(one)](boost::system::error_code const& error) {
      // The handle may have been dropped when the time was up already.
      auto const still_wanted = weak.lock();
      if (still_wanted && !error) still_wanted->ring();
    });
    return one;
  }
  void post(std::function<void()> f) override { boost::asio::post(context_, std::move(f)); }
  proof secret() override { return fresh_secret(); }

 private:
  boost::asio::io_context& context_;
};

}  // namespace

std::shared_ptr<stream_host> host_of(boost::asio::io_context& context) {
  return std::make_shared<host_in_context>(context);
}

}  // namespace rubato::net
