// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/micro/tcp_server.hpp"

#include <fmt/core.h>
#include <signal.h>
#include <sys/prctl.h>

#include <exception>
#include <fstream>
#include <future>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "bench/micro/raw_sockets.hpp"
#include "bench/micro/tcp_averages.hpp"
#include "bench/micro/tcp_peers.hpp"
#include "bench/micro/tcp_process.hpp"
#include "bench/micro/tcp_training.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/storage/sparse.hpp"
#include "rubato/transport/tcp.hpp"

namespace rubato::bench {
namespace {

constexpr std::string_view any_core = "any";

std::uint64_t peak_memory_now() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word)
    if (std::uint64_t kilobytes = 0; word == "VmHWM:" && status >> kilobytes)
      return kilobytes * 1024;
  throw std::runtime_error("/proc/self/status has no VmHWM");
}

void serve_as(net::role as, rules const& p, served_table const& t) {
  if (t.tables != 0) {
    cluster c{tcp{.place = t.place(as)}, p, list_of_tables(t.tables, t.rows)};
    c.run([](auto&) {});
    return;
  }
  auto const serve_one = [&](auto const& table) { cluster{tcp{.place = t.place(as)}, p, table}.run([](auto&) {}); };
  if (t.sparse) serve_one(sparse<float>{.rows = t.rows, .width = t.width});
  else serve_one(dense<float>{.rows = t.rows, .width = t.width});
}

void serve_under(rules const& p, served_table const& t) {
  auto coordinator =
      std::async(std::launch::async, [&] { serve_as(net::role::coordinator, p, t); });
  serve_as(net::role::server, p, t);
  coordinator.get();
}

rules protocol_of(served_table const& t) {
  if (t.protocol == asp::name()) return asp{};
  if (t.protocol == ssp::name()) return in_flight_256;
  return bsp{};
}

void serve_table(served_table const& t) {
  std::optional<pinned> here;
  if (t.core) here.emplace(*t.core);
  peak_memory peak{.at_start = peak_memory_now()};
  serve_under(protocol_of(t), t);
  peak.ever = peak_memory_now();
  fmt::print("{}\n", peak.text());
}

}  // namespace

std::vector<std::string> served_table::words() const {
  return {"table",
          protocol,
          std::to_string(rows),
          std::to_string(width),
          coordinator,
          core ? std::to_string(*core) : std::string(any_core),
          std::to_string(workers),
          std::to_string(tables),
          over_tcp ? "tcp" : "picked",
          sparse ? "sparse" : "dense"};
}

served_table served_table::parse(std::vector<std::string> const& words) {
  return {.protocol = words.at(1),
          .rows = std::stoull(words.at(2)),
          .width = std::stoull(words.at(3)),
          .coordinator = words.at(4),
          .core = words.at(5) == any_core ? std::nullopt : std::optional(std::stoi(words.at(5))),
          .workers = static_cast<std::uint32_t>(std::stoul(words.at(6))),
          .tables = static_cast<std::uint32_t>(std::stoul(words.at(7))),
          .over_tcp = words.at(8) == "tcp",
          .sparse = words.at(9) == "sparse"};
}

table_list list_of_tables(std::uint32_t tables, std::uint64_t rows) {
  table_list all;
  for (std::uint32_t i = 0; i < tables; ++i) all.add(dense<float>{.rows = rows / tables});
  return all;
}

net::deployment served_table::place(net::role as) const {
  net::deployment d;
  d.as = as;
  d.workers = workers;
  d.coordinator.path = coordinator;
  if (over_tcp) d.listen = net::address{.host = "127.0.0.1", .port = 0};
  d.patience = std::chrono::seconds(20);
  return d;
}

std::string peak_memory::text() const { return fmt::format("{} {}", at_start, ever); }

peak_memory peak_memory::parse(std::string const& text) {
  peak_memory p;
  std::istringstream in(text);
  if (!(in >> p.at_start >> p.ever))
    throw std::runtime_error("the server did not say what it used");
  return p;
}

int serve(std::vector<std::string> const& words) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    if (words.front() == "table")
      serve_table(served_table::parse(words));
    else if (words.front() == "peer")
      serve_peer(words);
    else if (words.front() == "ring")
      serve_ring(words);
    else if (words.front() == "average")
      serve_average(words);
    else if (words.front() == "train")
      serve_training(words);
    else
      serve_raw(words);
    return 0;
  } catch (std::exception const& e) {
    fmt::print(stderr, "rubato-bench micro, {}: {}\n", words.front(), e.what());
    return 1;
  }
}

}  // namespace rubato::bench
