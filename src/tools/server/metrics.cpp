// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "src/tools/server/metrics.hpp"

#include <fmt/format.h>

#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <iterator>
#include <optional>
#include <thread>

#include "rubato/core/error.hpp"

namespace rubato::server_tool {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

std::string prometheus_text(server_stats const& stats) {
  std::string text;
  auto const line = [&](char const* name, char const* type, char const* help,
                        server_stats::number const& value) {
    fmt::format_to(std::back_inserter(text), "# HELP rubato_{0} {1}\n# TYPE rubato_{0} {2}\nrubato_{0} {3}\n",
                   name, help, type, value.load(std::memory_order_relaxed));
  };
  line("commits_total", "counter", "Commits applied.", stats.commits);
  line("refused_total", "counter", "Commits and reads that were not taken.", stats.refused);
  line("reads_total", "counter", "Reads answered.", stats.reads);
  line("reads_waiting", "gauge", "Reads that the protocol holds back.", stats.reads_waiting);
  line("update_bytes_total", "counter", "Bytes of updates received.", stats.bytes_received);
  line("parameter_bytes_total", "counter", "Bytes of parameters sent.", stats.bytes_sent);
  line("connections", "gauge", "Worker processes that are connected.", stats.connections);
  line("connections_lost_total", "counter", "Worker processes that have gone.", stats.connections_lost);
  line("stage", "gauge", "The run under way, or the last one.", stats.stage);
  line("clock", "gauge", "The least clock of the run's workers.", stats.clock);
  return text;
}

namespace {

constexpr std::chrono::milliseconds pause_after_error{100};
constexpr long visits_max = 64;  // so that visitors leave files for workers to connect

/// One request, its answer, and goodbye. Lives in its handlers.
class visit : public std::enable_shared_from_this<visit> {
 public:
  visit(asio::ip::tcp::socket socket, server_stats const& stats, std::shared_ptr<void> ticket)
      : stream_(std::move(socket)), stats_(stats), ticket_(std::move(ticket)) {
    parser_.body_limit(0);
    parser_.header_limit(8 * 1024);
  }

  void begin() {
    stream_.expires_after(std::chrono::seconds(5));
    http::async_read(stream_, buffer_, parser_,
                     [self = shared_from_this()](beast::error_code ec, std::size_t) {
                       if (!ec) self->answer();
                     });
  }

 private:
  void answer() {
    auto const& request = parser_.get();
    response_.version(request.version());
    response_.keep_alive(false);
    response_.set(http::field::content_type, "text/plain; version=0.0.4; charset=utf-8");
    if (request.method() != http::verb::get) {
      response_.result(http::status::method_not_allowed);
      response_.body() = "only GET is answered here\n";
    } else if (request.target() != "/metrics" && request.target() != "/") {
      response_.result(http::status::not_found);
      response_.body() = "the counters are at /metrics\n";
    } else {
      response_.body() = prometheus_text(stats_);
    }
    response_.prepare_payload();
    http::async_write(stream_, response_,
                      [self = shared_from_this()](beast::error_code, std::size_t) {
                        beast::error_code ignored;
                        self->stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
                      });
  }

  beast::tcp_stream stream_;
  server_stats const& stats_;
  std::shared_ptr<void> ticket_;
  beast::flat_buffer buffer_{16 * 1024};
  http::request_parser<http::empty_body> parser_;
  http::response<http::string_body> response_;
};

}  // namespace

struct metrics_page::state {
  explicit state(server_stats const& s) : stats(s) {}
  void accept() {
    acceptor.async_accept([this](beast::error_code ec, asio::ip::tcp::socket socket) {
      if (!acceptor.is_open()) return;
      if (ec) return accept_later();
      if (tickets.use_count() <= visits_max)
        std::make_shared<visit>(std::move(socket), stats, tickets)->begin();
      accept();
    });
  }
  /// After an error, such as too many open files: others close theirs in time.
  void accept_later() {
    retry.expires_after(pause_after_error);
    retry.async_wait([this](beast::error_code) { accept(); });
  }

  server_stats const& stats;
  asio::io_context context{1};
  asio::ip::tcp::acceptor acceptor{context};
  asio::steady_timer retry{context};
  std::shared_ptr<void> tickets = std::make_shared<char>();  // whoever holds a copy is a visit
  std::thread thread;
};

metrics_page::metrics_page(net::address const& at, server_stats const& stats)
    : state_(std::make_unique<state>(stats)) {
  if (at.is_unix() || !at.is_loopback())
    throw option_error("--metrics: " + at.text() + ", expected a port of the loopback network");
  beast::error_code ec;
  auto const where = asio::ip::make_address(at.host == "localhost" ? "127.0.0.1" : at.host, ec);
  asio::ip::tcp::endpoint const endpoint(where, at.port);
  if (!ec) state_->acceptor.open(endpoint.protocol(), ec);
  if (!ec) state_->acceptor.set_option(asio::socket_base::reuse_address(true), ec);
  if (!ec) state_->acceptor.bind(endpoint, ec);
  if (!ec) state_->acceptor.listen(16, ec);
  if (ec) throw error(errc::io, "--metrics: " + at.text() + " cannot be listened on: " + ec.message());
  state_->accept();
  state_->thread = std::thread([s = state_.get()] { s->context.run(); });
}

metrics_page::~metrics_page() {
  state_->context.stop();
  state_->thread.join();
}

net::address metrics_page::bound() const {
  auto const at = state_->acceptor.local_endpoint();
  return {.host = at.address().to_string(), .port = at.port()};
}

}  // namespace rubato::server_tool
