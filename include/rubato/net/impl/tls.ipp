// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/impl/tls.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <array>
#include <climits>
#include <optional>

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/errc.hpp>

#include "rubato/core/error.hpp"
#include "rubato/net/address.hpp"
#include "rubato/net/impl/direct_reads.hpp"
#include "rubato/net/impl/tls_context.hpp"

namespace rubato::net {
namespace {

namespace asio = boost::asio;

constexpr std::size_t cipher_size = 128 * 1024;
constexpr std::size_t sent_at_once = 64 * 1024;
constexpr unsigned char first_of_handshake = 0x16;
constexpr unsigned char first_of_alert = 0x15;

struct free_ssl {
  void operator()(SSL* s) const noexcept { SSL_free(s); }
};

// The socket and OpenSSL, which only sees memory. So writing knows how far it came, reading fills
// several buffers, and both go on while the other waits. Operations under way keep it alive.
class engine final : public std::enable_shared_from_this<engine> {
 public:
  using user = stream::user;

  engine(std::shared_ptr<tls_context const> context, socket_type socket, handshake::role mine,
         std::string const& host);

  void read(std::span<asio::mutable_buffer const> into, std::shared_ptr<user> told);
  std::size_t write(std::span<asio::const_buffer const> from, error_code& error);
  void when_writable(std::shared_ptr<user> told);
  [[nodiscard]] std::uint64_t arrived() const noexcept { return arrived_; }
  [[nodiscard]] std::optional<std::chrono::microseconds> round_trip() { return round_trip_of(socket_); }
  void close() noexcept;
  [[nodiscard]] std::string const& failure() const noexcept { return failure_; }
  [[nodiscard]] std::vector<std::string> const& certified_uris() const noexcept { return uris_; }

 private:
  [[nodiscard]] bool is_ready() const noexcept { return ready_; }
  void read_cipher(std::span<asio::mutable_buffer const> into, std::shared_ptr<user> told);
  void on_cipher(error_code error, std::size_t bytes, std::span<asio::mutable_buffer const> into,
                 std::shared_ptr<user> told);
  [[nodiscard]] error_code end_of_cipher(error_code const& error);
  [[nodiscard]] bool begins_well();
  void shake(error_code& error);
  [[nodiscard]] std::size_t decrypt(std::span<asio::mutable_buffer const> into, error_code& error);
  [[nodiscard]] std::size_t encrypt(asio::const_buffer from, error_code& error);
  void push();
  void wait_to_push();
  [[nodiscard]] error_code judge(int result);
  [[nodiscard]] error_code fail(std::string reason);

  std::shared_ptr<tls_context const> context_;
  socket_type socket_;
  std::optional<direct_reads::other> not_read_directly_;
  handshake::role mine_;
  std::unique_ptr<SSL, free_ssl> ssl_;
  BIO* incoming_;  // belong to ssl_
  BIO* outgoing_;
  std::array<unsigned char, cipher_size> cipher_;
  std::vector<unsigned char> unsent_;  // encrypted
  std::size_t unsent_from_ = 0;
  std::vector<std::byte> early_;  // what was written before the handshake was over
  bool ready_ = false;            // the TLS handshake is over
  bool heard_ = false;
  std::uint64_t arrived_ = 0;  // bytes, encrypted
  bool waiting_ = false;
  std::shared_ptr<user> waiter_;
  std::string failure_;
  std::vector<std::string> uris_;  // of the other end's certificate
};

engine::engine(std::shared_ptr<tls_context const> context, socket_type socket, handshake::role mine,
               std::string const& host)
    : context_(std::move(context)),
      socket_(std::move(socket)),
      not_read_directly_(asio::use_service<direct_reads>(socket_.get_executor().context())),
      mine_(mine),
      ssl_(SSL_new(context_->get())),
      incoming_(BIO_new(BIO_s_mem())),
      outgoing_(BIO_new(BIO_s_mem())) {
  if (!ssl_ || incoming_ == nullptr || outgoing_ == nullptr) throw std::bad_alloc();
  SSL_set_bio(ssl_.get(), incoming_, outgoing_);
  if (mine_ == handshake::role::accepting) {
    SSL_set_accept_state(ssl_.get());
    return;
  }
  SSL_set_connect_state(ssl_.get());
  if (host.empty()) return;
  bool const is_name = address{.host = host}.is_name();
  bool const expects = is_name ? SSL_set1_host(ssl_.get(), host.c_str()) == 1 &&
                                     SSL_set_tlsext_host_name(ssl_.get(), host.c_str()) == 1
                               : X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_.get()), host.c_str()) == 1;
  if (!expects)
    throw error(errc::io, "TLS cannot expect a certificate for '" + host + "'");
}

void engine::read(std::span<asio::mutable_buffer const> into, std::shared_ptr<user> told) {
  error_code error;
  std::size_t const bytes = is_ready() ? decrypt(into, error) : 0;
  if (bytes == 0 && !error) return read_cipher(into, std::move(told));
  asio::post(socket_.get_executor(), [self = shared_from_this(), told = std::move(told), error,
                                      bytes] { told->was_read(error, bytes); });
}

void engine::read_cipher(std::span<asio::mutable_buffer const> into, std::shared_ptr<user> told) {
  socket_.async_read_some(asio::buffer(cipher_),
                          [self = shared_from_this(), into, told = std::move(told)](
                              error_code const& error, std::size_t bytes) {
                            self->on_cipher(error, bytes, into, told);
                          });
}

void engine::on_cipher(error_code error, std::size_t bytes,
                       std::span<asio::mutable_buffer const> into, std::shared_ptr<user> told) {
  // Once closed, the buffers may be gone.
  if (!socket_.is_open()) return told->was_read(asio::error::operation_aborted, 0);
  if (error) return told->was_read(end_of_cipher(error), 0);
  arrived_ += bytes;
  BIO_write(incoming_, cipher_.data(), static_cast<int>(bytes));
  if (!std::exchange(heard_, true) && !begins_well())
    return told->was_read(fail(mine_ == handshake::role::accepting
                                   ? "the peer does not speak TLS, this listener expects it"
                                   : "the other end does not speak TLS; is it on at both ends?"),
                          0);
  if (!is_ready()) shake(error);
  std::size_t const plain = !error && is_ready() ? decrypt(into, error) : 0;
  push();  // an answer of the handshake, or an alert
  if (plain > 0) return told->was_read({}, plain);
  if (error) return told->was_read(error, 0);
  read_cipher(into, std::move(told));
}

error_code engine::end_of_cipher(error_code const& error) {
  if (is_ready() || (error != asio::error::eof && error != asio::error::connection_reset))
    return error;
  (void)fail(heard_ || mine_ == handshake::role::accepting
                 ? "the other end closed the connection during the TLS handshake"
                 : "the other end closed the connection instead of speaking TLS; is it on at both "
                   "ends?");
  return asio::error::connection_aborted;
}

bool engine::begins_well() {
  if (cipher_[0] == first_of_handshake || cipher_[0] == first_of_alert) return true;
  if (mine_ == handshake::role::accepting) {
    auto const answer = handshake::refusal("this listener expects TLS");
    error_code ignored;
    socket_.write_some(asio::buffer(answer), ignored);
  }
  return false;
}

void engine::shake(error_code& error) {
  ERR_clear_error();
  int const result = SSL_do_handshake(ssl_.get());
  if (result != 1) {
    error = judge(result);
    return;
  }
  std::unique_ptr<X509, void (*)(X509*)> const shown(SSL_get_peer_certificate(ssl_.get()), X509_free);
  auto uris = uris_of(shown.get());
  if (!uris) {
    error = fail("the names in the peer's certificate cannot be read");
    return;
  }
  uris_ = std::move(*uris);
  ready_ = true;
  auto const early = std::exchange(early_, {});
  if (!early.empty()) (void)encrypt(asio::buffer(early), error);
}

// Fills the buffers with what is there.
std::size_t engine::decrypt(std::span<asio::mutable_buffer const> into, error_code& error) {
  std::size_t total = 0;
  for (auto buffer : into) {
    while (buffer.size() > 0) {
      ERR_clear_error();
      int const room = static_cast<int>(std::min<std::size_t>(buffer.size(), INT_MAX));
      int const bytes = SSL_read(ssl_.get(), buffer.data(), room);
      if (bytes <= 0) {
        error = judge(bytes);
        // What came before an end is told first; the end is found again by the next call.
        if (total > 0) error = {};
        return total;
      }
      buffer += static_cast<std::size_t>(bytes);
      total += static_cast<std::size_t>(bytes);
    }
  }
  return total;
}

std::size_t engine::encrypt(asio::const_buffer from, error_code& error) {
  std::size_t total = 0;
  while (from.size() > 0 && total < sent_at_once) {
    ERR_clear_error();
    int const size = static_cast<int>(std::min(from.size(), sent_at_once));
    int const bytes = SSL_write(ssl_.get(), from.data(), size);
    if (bytes <= 0) {
      error = judge(bytes);
      return total;
    }
    from += static_cast<std::size_t>(bytes);
    total += static_cast<std::size_t>(bytes);
  }
  return total;
}

std::size_t engine::write(std::span<asio::const_buffer const> from, error_code& error) {
  if (!is_ready()) {
    for (auto const& buffer : from) {
      auto const* const bytes = static_cast<std::byte const*>(buffer.data());
      early_.insert(early_.end(), bytes, bytes + buffer.size());
    }
    shake(error);
    push();
    return asio::buffer_size(from);
  }
  push();
  std::size_t total = 0;
  for (auto buffer : from) {
    while (buffer.size() > 0 && unsent_.empty() && !error) {
      std::size_t const bytes = encrypt(buffer, error);
      buffer += bytes;
      total += bytes;
      if (buffer.size() > 0) push();
    }
    if (!unsent_.empty() || error) break;
  }
  push();
  if (total == 0 && !error) error = asio::error::would_block;
  return total;
}

// Sends what is encrypted, as far as the system takes it; waits with the rest.
void engine::push() {
  for (;;) {
    if (unsent_.empty()) {
      char* data = nullptr;
      auto const size = static_cast<std::size_t>(BIO_get_mem_data(outgoing_, &data));
      if (size == 0) return;
      unsent_.assign(data, data + size);
      (void)BIO_reset(outgoing_);
    }
    error_code error;
    unsent_from_ += socket_.write_some(asio::buffer(unsent_) + unsent_from_, error);
    if (error == asio::error::would_block) return wait_to_push();
    if (!error && unsent_from_ < unsent_.size()) continue;
    // After an error nothing goes out any more; reading finds out why.
    unsent_.clear();
    unsent_from_ = 0;
  }
}

void engine::wait_to_push() {
  if (std::exchange(waiting_, true)) return;
  socket_.async_wait(socket_type::wait_write, [self = shared_from_this()](error_code const& error) {
    self->waiting_ = false;
    if (!self->socket_.is_open()) return;
    if (!error) self->push();
    if (self->waiting_) return;
    if (auto const told = std::exchange(self->waiter_, nullptr)) told->may_write(error);
  });
}

void engine::when_writable(std::shared_ptr<user> told) {
  waiter_ = std::move(told);
  wait_to_push();
}

error_code engine::judge(int result) {
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      return {};
    case SSL_ERROR_ZERO_RETURN:
      return asio::error::eof;
    default:
      return fail(tls_failure(ssl_.get()));
  }
}

error_code engine::fail(std::string reason) {
  if (failure_.empty()) failure_ = std::move(reason);
  return make_error_code(boost::system::errc::protocol_error);
}

void engine::close() noexcept {
  if (!socket_.is_open()) return;
  not_read_directly_.reset();
  try {
    ERR_clear_error();
    if (is_ready() && failure_.empty()) SSL_shutdown(ssl_.get());
    push();
  } catch (...) {  // no memory for a farewell
  }
  waiter_ = nullptr;
  close_socket(socket_);
}

class encrypted final : public stream {
 public:
  explicit encrypted(std::shared_ptr<engine> by) : engine_(std::move(by)) {}
  encrypted(encrypted const&) = delete;
  encrypted& operator=(encrypted const&) = delete;
  ~encrypted() override { engine_->close(); }

  void read(std::span<asio::mutable_buffer const> into, std::size_t, std::shared_ptr<user> told) override {
    engine_->read(into, std::move(told));
  }
  std::size_t write(std::span<asio::const_buffer const> from, error_code& error) override {
    return engine_->write(from, error);
  }
  void when_writable(std::shared_ptr<user> told) override {
    engine_->when_writable(std::move(told));
  }
  // A record is only told of when it is whole.
  [[nodiscard]] std::uint64_t untold() const noexcept override { return engine_->arrived(); }
  [[nodiscard]] std::vector<std::string> certified_uris() const override { return engine_->certified_uris(); }
  [[nodiscard]] std::optional<std::chrono::microseconds> round_trip() const override { return engine_->round_trip(); }
  void close() noexcept override { engine_->close(); }
  [[nodiscard]] std::string meaning(error_code const& error) const override {
    bool const ours = (error == boost::system::errc::protocol_error ||
                       error == asio::error::connection_aborted) &&
                      !engine_->failure().empty();
    return ours ? engine_->failure() : stream::meaning(error);
  }

 private:
  std::shared_ptr<engine> engine_;
};

}  // namespace

std::unique_ptr<stream> tls_stream(std::shared_ptr<tls_context const> context, socket_type socket,
                                   handshake::role mine, std::string const& host) {
  return std::make_unique<encrypted>(
      std::make_shared<engine>(std::move(context), std::move(socket), mine, host));
}

}  // namespace rubato::net
