// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// The memory of a server process while several workers push and pull whole tables.

#include <fmt/core.h>

#include <exception>
#include <mutex>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "bench/micro/table.hpp"
#include "bench/micro/tcp_process.hpp"
#include "bench/micro/tcp_server.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/run/first_failure.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/transport/tcp.hpp"

namespace rubato::bench {
namespace {

constexpr std::size_t megabyte = std::size_t{1} << 20;
constexpr std::size_t table_bytes = 64 * megabyte;
constexpr std::size_t elements = table_bytes / sizeof(float);
constexpr std::uint32_t connections = 4;
constexpr std::size_t per_connection = 8 * megabyte;
constexpr int clocks = 10;

/// A worker process in all but name: it has a connection of its own.
void work(rules const& p, served_table const& t) {
  cluster c{tcp{.place = t.place(net::role::worker)}, p, dense<float>{.rows = t.rows}};
  c.run([](auto& worker) {
    std::vector<float> w(elements);
    std::vector<float> const u(elements, 1e-3F);
    for (int clock = 0; clock < clocks; ++clock) {
      worker.pull(w);
      worker.push(u);
      worker.commit();
    }
  });
}

peak_memory memory_under(rules const& p) {
  scratch_directory const scratch;
  served_table const t{.protocol = p.name,
                       .rows = elements,
                       .coordinator = scratch.path() / "coordinator",
                       .workers = connections};
  other_process server(t.words());
  std::mutex lock;
  detail::first_failure failure;
  {
    std::vector<std::jthread> workers;
    for (std::uint32_t w = 0; w < connections; ++w)
      workers.emplace_back([&] {
        try {
          work(p, t);
        } catch (...) {
          std::lock_guard const guard(lock);
          failure.note(std::current_exception());
        }
      });
  }
  failure.rethrow();
  return peak_memory::parse(server.wait());
}

std::string row_of(rules const& p) { return fmt::format("tcp memory of a server, {}", p.name); }

void print_memory(rules const& p, std::size_t updates_kept, std::regex const& wanted) {
  std::string const name = row_of(p);
  if (!std::regex_search(name, wanted)) return;
  peak_memory const peak = memory_under(p);
  std::size_t const most =
      2 * table_bytes + connections * per_connection + updates_kept * table_bytes;
  double const used = static_cast<double>(peak.ever - peak.at_start);
  fmt::print("{:<44} {:>7.1f} MB         {:.2f} x its parameters{:<31} <= {} MB\n", name,
             used / static_cast<double>(megabyte), used / static_cast<double>(table_bytes), "",
             most / megabyte);
}

}  // namespace

bool names_server_memory(std::string const& filter) {
  std::regex const wanted(filter);
  return std::regex_search(row_of(asp{}), wanted) || std::regex_search(row_of(bsp{}), wanted);
}

void print_server_memory(std::string const& filter) {
  std::regex const wanted(filter);
  print_memory(asp{}, 0, wanted);
  print_memory(bsp{}, connections, wanted);
}

}  // namespace rubato::bench
