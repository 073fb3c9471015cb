// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Whole runs over Unix-domain sockets, with all roles in threads of this process.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/net/asio_network.hpp>
#include <rubato/net/deployment.hpp>
#include <rubato/net/log.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/server/blueprint.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/storage/table_description.hpp>
#include <rubato/transport/processes/coordinator_process.hpp>
#include <rubato/transport/processes/server_process.hpp>
#include <rubato/transport/tcp.hpp>

#include "net/ends.hpp"

namespace rubato::test {

using counting = dense<std::int64_t, sum>;
using keyed_counting = sparse<std::int64_t, sum>;

/// Connections that tests break are no news.
struct silence_in_log {
  silence_in_log() { net::set_log([](net::log_level, std::string_view) {}); }
  ~silence_in_log() { net::set_log({}); }
};

/// A coordinator and servers in threads of their own, and what workers need to find them.
class serving {
 public:
  serving(net::deployment const& shape, rules const& p, std::vector<table_description> const& tables)
      : place_(shape) {
    place_.coordinator.path = folder_.file("coordinator");
    place_.silence = 60s;
    place_.reconnect = 20s;
    net::deployment as_coordinator = place_;
    as_coordinator.as = net::role::coordinator;
    coordinator_.emplace(std::make_unique<net::asio_network>(), as_coordinator, std::vector<rules>{p},
                         blueprint(p, place_.servers, tables).agreement());
    for (std::uint32_t i = 0; i < place_.servers; ++i) servers_.emplace_back(place_of(i), p, tables);
    threads_.push_back(serve(*coordinator_));
    for (auto& s : servers_) threads_.push_back(serve(s.process));
  }

  /// For a worker process.
  [[nodiscard]] tcp process(std::uint32_t rank, std::uint32_t threads) const {
    tcp options{.place = place_, .threads = threads};
    options.place.rank = rank;
    return options;
  }
  /// Links that were lost, on the servers' side.
  [[nodiscard]] std::uint64_t losses() const {
    std::uint64_t all = 0;
    for (auto const& s : servers_) all += s.process.stats().connections_lost;
    return all;
  }
  /// Those of them that were answered in memory that the reader shares.
  [[nodiscard]] std::uint64_t reads_in_memory() const {
    std::uint64_t all = 0;
    for (auto const& s : servers_) all += s.process.stats().reads_in_memory;
    return all;
  }
  /// Commits of which updates were read in the worker's memory.
  [[nodiscard]] std::uint64_t commits_in_memory() const {
    std::uint64_t all = 0;
    for (auto const& s : servers_) all += s.process.stats().commits_in_memory;
    return all;
  }
  /// Reads of all kinds that the servers have answered.
  [[nodiscard]] std::uint64_t reads() const {
    std::uint64_t all = 0;
    for (auto const& s : servers_) all += s.process.stats().reads;
    return all;
  }
  /// Those that the protocol holds back now.
  [[nodiscard]] std::uint64_t reads_waiting() const {
    std::uint64_t all = 0;
    for (auto const& s : servers_) all += s.process.stats().reads_waiting;
    return all;
  }

 private:
  static constexpr std::uint64_t sparse_max = std::uint64_t{1} << 30;

  struct server {
    server(net::deployment const& place, rules const& p, std::vector<table_description> const& tables)
        : plan(p, place.servers, tables),
          process(std::make_unique<net::asio_network>(), plan, plan.agreement(), place, sparse_max) {}
    blueprint plan;
    detail::server_process process;
  };

  [[nodiscard]] net::deployment place_of(std::uint32_t rank) const {
    net::deployment place = place_;
    place.as = net::role::server;
    place.rank = rank;
    place.listen = {.host = {}, .path = folder_.file("server-" + std::to_string(rank))};
    return place;
  }
  /// Ends when all workers have left.
  template <class Process>
  [[nodiscard]] static std::jthread serve(Process& p) {
    return std::jthread([&p] {
      try {
        p.run();
      } catch (error const&) {  // the workers say so
      }
    });
  }

  temporary_folder folder_;
  net::deployment place_;
  std::optional<detail::coordinator_process> coordinator_;
  std::deque<server> servers_;
  std::vector<std::jthread> threads_;
};

/// Catch is not for several threads: what is wrong in a body ends the run.
inline void expect(bool fine, std::string const& sentence) {
  if (!fine) throw std::logic_error(sentence);
}

/// Runs `f(process)` for so many worker processes, side by side; rethrows what one has thrown.
template <class F>
void in_processes(std::uint32_t count, F f) {
  std::vector<std::exception_ptr> thrown(count);
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t i = 0; i < count; ++i)
      threads.emplace_back([&f, &thrown, i] {
        try {
          f(i);
        } catch (...) {
          thrown[i] = std::current_exception();
        }
      });
  }
  for (auto const& e : thrown)
    if (e) std::rethrow_exception(e);
}

inline std::vector<std::int64_t> ones(std::size_t n) { return std::vector<std::int64_t>(n, 1); }

inline bool are_all(std::span<std::int64_t const> values, std::int64_t expected) {
  return std::ranges::all_of(values, [&](auto x) { return x == expected; });
}

constexpr std::uint32_t processes = 2;
inline net::deployment two_by_two() { return {.workers = processes, .servers = 2}; }

/// Room for a pull, with marks on both sides that nothing may touch.
class marked_room {
 public:
  explicit marked_room(std::size_t n) : all_(n + 2 * margin, mark) {}
  [[nodiscard]] std::span<std::int64_t> room() {
    return std::span(all_).subspan(margin, all_.size() - 2 * margin);
  }
  [[nodiscard]] bool is_intact() const {
    auto const all = std::span(all_);
    return are_all(all.first(margin), mark) && are_all(all.last(margin), mark);
  }

 private:
  static constexpr std::size_t margin = 64;
  static constexpr std::int64_t mark = -7;
  std::vector<std::int64_t> all_;
};

}  // namespace rubato::test
