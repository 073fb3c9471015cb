// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "src/tools/server/metrics.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <thread>

#include "rubato/core/error.hpp"

namespace rubato::server_tool {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

namespace {

void add_line(std::string& text, std::string_view name, char const* type, char const* help, std::uint64_t value) {
  fmt::format_to(std::back_inserter(text), "# HELP rubato_{0} {1}\n# TYPE rubato_{0} {2}\nrubato_{0} {3}\n", name, help,
                 type, value);
}
void add_line(std::string& text, std::string_view name, char const* type, char const* help,
              server_stats::number const& value) {
  add_line(text, name, type, help, value.load(std::memory_order_relaxed));
}

/// Of this process, in memory now: the second number of /proc/self/statm, in pages.
std::uint64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::uint64_t all = 0, resident = 0;
  in >> all >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

std::string prometheus_text(server_stats const& stats) {
  std::string text;
  auto const line = [&](auto const&... all) { add_line(text, all...); };
  line("commits_total", "counter", "Commits applied.", stats.commits);
  line("commits_in_memory_total", "counter", "Of these, read in memory of processes on this machine.",
       stats.commits_in_memory);
  line("refused_total", "counter", "Commits and reads that were not taken.", stats.refused);
  line("reads_total", "counter", "Reads answered.", stats.reads);
  line("reads_in_memory_total", "counter", "Of these, read by processes on this machine in this one's memory.",
       stats.reads_in_memory);
  line("reads_waiting", "gauge", "Reads that the protocol holds back.", stats.reads_waiting);
  line("update_bytes_total", "counter", "Bytes of updates received.", stats.bytes_received);
  line("parameter_bytes_total", "counter", "Bytes of parameters sent.", stats.bytes_sent);
  line("connections", "gauge", "Worker processes that are connected.", stats.connections);
  line("connections_lost_total", "counter", "Worker processes that have gone.", stats.connections_lost);
  line("reconnects_total", "counter", "Connections that came back after a break.", stats.reconnects);
  line("not_finite_total", "counter", "Worker processes cut off for NaN or infinity.", stats.not_finite);
  line("over_limits_total", "counter", "Worker processes cut off for rows or bytes beyond limits.", stats.over_limits);
  line("table_bytes", "gauge", "Memory of the tables, versions included.", stats.table_bytes);
  line("held_commits", "gauge", "Commits that the protocol holds back.", stats.held_commits);
  line("held_bytes", "gauge", "Bytes of commits that the protocol holds back.", stats.held_bytes);
  line("stage", "gauge", "The run under way, or the last one.", stats.stage);
  line("clock", "gauge", "The least clock of the run's workers.", stats.clock);
  return text;
}

std::string prometheus_text(coordinator_stats const& stats) {
  std::string text;
  auto const line = [&](auto const&... all) { add_line(text, all...); };
  line("coordinator_servers", "gauge", "Server processes that are here.", stats.servers_here);
  line("coordinator_workers", "gauge", "Worker processes that are here.", stats.workers_here);
  line("coordinator_connected", "gauge", "Processes whose connection is up.", stats.connected);
  line("coordinator_handshakes_total", "counter", "Connections that have said whose they are.", stats.handshakes);
  line("coordinator_reconnects_total", "counter", "Connections that came back after a break.", stats.reconnects);
  line("coordinator_refused_total", "counter", "Processes that were refused.", stats.refused);
  line("coordinator_lost_total", "counter", "Processes that went without a goodbye.", stats.lost);
  line("coordinator_stage", "gauge", "The run under way, or the last one.", stats.stage);
  line("coordinator_running", "gauge", "Whether a run is under way.", stats.running);
  return text;
}

std::string prometheus_text(watched const& who) {
  std::string text;
  if (who.server != nullptr) text += prometheus_text(*who.server);
  if (who.coordinator != nullptr) text += prometheus_text(*who.coordinator);
  add_line(text, "resident_bytes", "gauge", "Memory of this process.", resident_bytes());
  return text;
}

namespace {

/// What is missing until workers can be served; nothing if nothing is.
std::string missing(watched const& who) {
  auto const no = [](server_stats::number const& ready) { return ready.load(std::memory_order_relaxed) == 0; };
  if (who.server != nullptr && no(who.server->ready)) return "the coordinator has not let this server in yet\n";
  if (who.coordinator == nullptr || !no(who.coordinator->ready)) return "";
  return fmt::format("{} servers and {} workers are here, and more are needed\n",
                     who.coordinator->servers_here.load(std::memory_order_relaxed),
                     who.coordinator->workers_here.load(std::memory_order_relaxed));
}

constexpr std::chrono::milliseconds pause_after_error{100};
constexpr long visits_max = 64;  // so that visitors leave files for workers to connect

/// One request, its answer, and goodbye. Lives in its handlers.
class visit : public std::enable_shared_from_this<visit> {
 public:
  visit(asio::ip::tcp::socket socket, watched const& who, std::shared_ptr<void> ticket)
      : stream_(std::move(socket)), who_(who), ticket_(std::move(ticket)) {
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
    } else {
      answer(request.target());
    }
    response_.prepare_payload();
    http::async_write(stream_, response_,
                      [self = shared_from_this()](beast::error_code, std::size_t) {
                        beast::error_code ignored;
                        self->stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
                      });
  }

  void answer(std::string_view target) {
    if (target == "/metrics" || target == "/") {
      response_.body() = prometheus_text(who_);
    } else if (target == "/healthz") {
      response_.body() = "ok\n";
    } else if (target == "/readyz") {
      std::string const lack = missing(who_);
      if (!lack.empty()) response_.result(http::status::service_unavailable);
      response_.body() = lack.empty() ? "ready\n" : lack;
    } else {
      response_.result(http::status::not_found);
      response_.body() = "the counters are at /metrics, answers to probes at /healthz and /readyz\n";
    }
  }

  beast::tcp_stream stream_;
  watched const who_;
  std::shared_ptr<void> ticket_;
  beast::flat_buffer buffer_{16 * 1024};
  http::request_parser<http::empty_body> parser_;
  http::response<http::string_body> response_;
};

}  // namespace

struct metrics_page::state {
  explicit state(watched const& w) : who(w) {}
  void accept() {
    acceptor.async_accept([this](beast::error_code ec, asio::ip::tcp::socket socket) {
      if (!acceptor.is_open()) return;
      if (ec) return accept_later();
      if (tickets.use_count() <= visits_max)
        std::make_shared<visit>(std::move(socket), who, tickets)->begin();
      accept();
    });
  }
  /// After an error, such as too many open files: others close theirs in time.
  void accept_later() {
    retry.expires_after(pause_after_error);
    retry.async_wait([this](beast::error_code) { accept(); });
  }

  watched const who;
  asio::io_context context{1};
  asio::ip::tcp::acceptor acceptor{context};
  asio::steady_timer retry{context};
  std::shared_ptr<void> tickets = std::make_shared<char>();  // whoever holds a copy is a visit
  std::thread thread;
};

metrics_page::metrics_page(net::address const& at, watched const& who)
    : state_(std::make_unique<state>(who)) {
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
