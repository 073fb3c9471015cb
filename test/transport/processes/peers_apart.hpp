// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Runs of peers over Unix-domain sockets, each process a thread of this one.
#pragma once

#include <catch2/catch.hpp>

#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <rubato/cluster/peer_group.hpp>
#include <rubato/core/error.hpp>
#include <rubato/net/deployment.hpp>
#include <rubato/net/log.hpp>
#include <rubato/peer/mixing.hpp>
#include <rubato/transport/tcp.hpp>

#include "net/ends.hpp"
#include "transport/peer_groups.hpp"

namespace rubato::test {

/// Where the peers of a run find each other.
class peers_apart {
 public:
  explicit peers_apart(std::uint32_t peers) {
    shape.workers = peers;
    shape.servers = 0;
    shape.silence = 60s;
    shape.reconnect = 20s;
    shape.coordinator.path = folder_.file("coordinator");
  }
  [[nodiscard]] tcp coordinator() const {
    tcp t{.place = shape};
    t.place.as = net::role::coordinator;
    return t;
  }
  [[nodiscard]] tcp peer(std::uint32_t rank) const {
    tcp t{.place = shape};
    t.place.rank = rank;
    t.place.listen = {.host = {}, .path = folder_.file("peer-" + std::to_string(rank))};
    return t;
  }

  net::deployment shape;

 private:
  temporary_folder folder_;
};

/// What became of one process.
struct outcome {
  std::exception_ptr thrown{};
  [[nodiscard]] std::string text() const {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (lost_error const& e) {
      return std::string("lost: ") + e.what();
    } catch (std::exception const& e) {
      return e.what();
    }
    return "";
  }
};

/// Calls `f(transport, rank)` in a thread for each process of peers, and beside them `coordinate(transport)`.
/// @returns by rank, with the coordinator behind
template <class Coordinate, class F>
std::vector<outcome> in_peers(peers_apart const& run, Coordinate coordinate, F f) {
  std::uint32_t const count = run.shape.workers;
  std::vector<outcome> all(count + 1);
  {
    std::vector<std::jthread> threads;
    auto const start = [&](std::uint32_t i, auto work) {
      threads.emplace_back([&all, i, work] {
        try {
          work();
        } catch (...) {
          all[i].thrown = std::current_exception();
        }
      });
    };
    start(count, [&] { coordinate(run.coordinator()); });
    for (std::uint32_t i = 0; i < count; ++i) start(i, [&, i] { f(run.peer(i), i); });
  }
  return all;
}

/// The same where every process makes the group that `make(transport)` gives and `use(group, rank)` uses, and all
/// ends well.
template <class Make, class Use>
void in_groups(peers_apart const& run, Make make, Use use) {
  auto const all = in_peers(
      run,
      [&](tcp const& t) {
        auto group = make(t);
        group.run([](auto&) {});
      },
      [&](tcp const& t, std::uint32_t rank) {
        auto group = make(t);
        use(group, rank);
      });
  for (std::size_t i = 0; i < all.size(); ++i) {
    INFO("process " << i);
    CHECK(all[i].text() == "");
  }
}

/// Connections that tests break are no news.
struct silence_in_peers_log {
  silence_in_peers_log() { net::set_log([](net::log_level, std::string_view) {}); }
  ~silence_in_peers_log() { net::set_log({}); }
};

/// Catch is not for several threads: what is wrong ends the run.
inline void require_that(bool fine, std::string const& sentence) {
  if (!fine) throw std::logic_error(sentence);
}

}  // namespace rubato::test
