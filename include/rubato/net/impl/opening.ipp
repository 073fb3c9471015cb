// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/impl/opening.hpp"

#include <boost/asio/error.hpp>
#include <boost/system/errc.hpp>

namespace rubato::net {

namespace asio = boost::asio;

opening::opening(std::shared_ptr<stream_host> host, std::unique_ptr<stream> over, handshake::role mine,
                 std::string token, connection_options const& options, told done)
    : host_(std::move(host)),
      stream_(std::move(over)),
      handshake_(mine, std::move(token),
                 {.mine = options.as, .other = options.expected, .number = options.expected_number},
                 host_->secret()),
      done_(std::move(done)) {}

void opening::start(clock::time_point until) {
  timer_ = host_->at(until, [weak = weak_from_this()] {
    if (auto const self = weak.lock()) self->finish("the handshake took too long");
  });
  proceed();
}

void opening::proceed() {
  if (written_ == output_.size()) {
    output_ = handshake_.output();
    written_ = 0;
  }
  error_code error;
  if (!write_all(error)) {
    if (error == asio::error::would_block) return stream_->when_writable(shared_from_this());
    // A peer that refuses closes; its reason is still to be read.
    bool const closed = error == asio::error::broken_pipe || error == asio::error::connection_reset;
    if (!closed) return fail(error);
  }
  if (handshake_.wanted() == 0) return finish({});
  input_.resize(handshake_.wanted());
  filled_ = 0;
  read_on();
}

bool opening::write_all(error_code& error) {
  while (written_ < output_.size()) {
    asio::const_buffer const rest = asio::buffer(output_) + written_;
    written_ += stream_->write(std::span(&rest, 1), error);
    if (error) return false;
  }
  return true;
}

void opening::read_on() {
  room_ = asio::buffer(input_) + filled_;
  stream_->read(std::span(&room_, 1), 0, shared_from_this());
}

void opening::may_write(error_code const& error) {
  if (!done_) return;
  if (error) return fail(error);
  proceed();
}

void opening::was_read(error_code const& error, std::size_t bytes) {
  if (!done_) return;
  if (error == asio::error::eof)
    return finish("the other end closed the connection during the handshake");
  if (error) return fail(error);
  filled_ += bytes;
  if (filled_ < input_.size()) return read_on();
  received();
}

void opening::received() {
  try {
    if (!std::exchange(heard_, true)) handshake_.other_is_certified(stream_->certified_uris());
    handshake_.received(input_);
  } catch (handshake_refused const& refused) {
    output_ = handshake_.output();
    written_ = 0;
    error_code ignored;
    (void)write_all(ignored);
    return finish(refused.what(), true);
  }
  proceed();
}

// Of all errors of a stream only what TLS does not accept lasts: who closes may just be starting,
// or have no room.
void opening::fail(error_code const& error) {
  finish(stream_->meaning(error), error == boost::system::errc::protocol_error);
}

void opening::finish(std::string const& reason, bool refused) {
  if (!done_) return;
  auto const done = std::exchange(done_, nullptr);
  timer_.reset();
  if (reason.empty()) return done(std::move(stream_), reason, false);
  stream_->close();
  done(nullptr, reason, refused);
}

void opening::cancel() noexcept {
  done_ = nullptr;
  timer_.reset();
  if (stream_) stream_->close();
}

}  // namespace rubato::net
