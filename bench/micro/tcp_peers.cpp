// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Peers over loopback TCP, each a process, beside plain sockets between as many processes that move the same bytes; and
// as is picked on one machine, where they share memory.
// This process is peer 0; that of peer 1 coordinates, too.
#include "bench/micro/tcp_peers.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "bench/micro/raw_sockets.hpp"
#include "bench/micro/table.hpp"
#include "bench/micro/tcp_averages.hpp"
#include "bench/micro/tcp_process.hpp"
#include "rubato/cluster/peer_group.hpp"
#include "rubato/peer/all_reduce.hpp"
#include "rubato/peer/hop.hpp"
#include "rubato/peer/peer_rules.hpp"
#include "rubato/peer/topologies.hpp"
#include "rubato/transport/tcp.hpp"

namespace rubato::bench {
namespace {

using peers_clock = std::chrono::steady_clock;

constexpr std::size_t usual_parameters = 1'000'000;

double seconds_from(peers_clock::time_point start) {
  return std::chrono::duration<double>(peers_clock::now() - start).count();
}

/// One of as many as there are, and where they meet.
struct one_of_ring {
  std::string what;
  std::uint32_t count = 2;
  std::uint32_t rank = 0;
  std::string folder;
  std::size_t parameters = usual_parameters;
  bool over_tcp = true;  ///< else what is picked by itself on one machine

  [[nodiscard]] std::vector<std::string> words(char const* role) const {
    return {role,   what, std::to_string(count), std::to_string(rank), folder, std::to_string(parameters),
            std::to_string(over_tcp)};
  }
  [[nodiscard]] static one_of_ring parse(std::vector<std::string> const& words) {
    return {words.at(1), static_cast<std::uint32_t>(std::stoul(words.at(2))),
            static_cast<std::uint32_t>(std::stoul(words.at(3))), words.at(4), std::stoull(words.at(5)),
            words.at(6) == "1"};
  }
  /// Enough to take about a fifth of a second.
  [[nodiscard]] std::int64_t rounds() const noexcept {
    return static_cast<std::int64_t>(std::clamp<std::size_t>(40'000'000 / parameters, 8, 400));
  }
};

/// All but the first, which is this process.
std::vector<std::unique_ptr<other_process>> start_others(one_of_ring one, char const* role) {
  std::vector<std::unique_ptr<other_process>> all;
  for (one.rank = 1; one.rank < one.count; ++one.rank) all.push_back(std::make_unique<other_process>(one.words(role)));
  return all;
}

// ---- peers

peer_rules protocol_named(std::string const& name) {
  if (name == "all_reduce") return all_reduce{};
  return hop();
}

auto group_of(one_of_ring const& one, net::role as) {
  tcp t{.background = true};
  t.place.as = as;
  t.place.workers = one.count;
  t.place.servers = 0;
  t.place.coordinator.path = one.folder + "/coordinator";
  if (one.over_tcp) t.place.listen = net::address{.host = "127.0.0.1", .port = 0};
  t.place.patience = std::chrono::seconds(20);
  if (as == net::role::worker) t.place.rank = one.rank;
  return peer_group{t, ring(one.count), protocol_named(one.what), plain_step{}, std::vector<float>(one.parameters)};
}

/// Returns the seconds of a round, without the first one, in which connections are made.
double run_peer(one_of_ring const& one) {
  auto group = group_of(one, net::role::worker);
  std::int64_t const rounds = one.rounds();
  std::vector<float> const step(one.parameters, 1e-3F);
  double seconds = 0;
  group.run([&](auto& peer) {
    peers_clock::time_point start;
    for (std::int64_t const k : peer.iterations(rounds + 1)) {
      if (k == 1) start = peers_clock::now();
      peer.step(step);
    }
    seconds = seconds_from(start) / static_cast<double>(rounds);
  });
  return seconds;
}

void bench_peers(benchmark::State& state, std::string const& protocol, std::uint32_t count, std::size_t parameters,
                 bool over_tcp) {
  try {
    for (auto _ : state) {
      scratch_directory const meet;
      one_of_ring const one{protocol, count, 0, meet.path().string(), parameters, over_tcp};
      auto const others = start_others(one, "peer");
      state.SetIterationTime(run_peer(one));
      for (auto const& other : others) (void)other->wait();
    }
  } catch (std::exception const& e) {
    state.SkipWithError(e.what());
  }
}

// ---- plain sockets

[[noreturn]] void fail_socket(char const* what) { throw std::system_error(errno, std::generic_category(), what); }

sockaddr_in loopback_at(std::uint16_t port) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  a.sin_port = htons(port);
  return a;
}

raw_socket without_delay(int fd) {
  int const yes = 1;
  if (fd < 0) fail_socket("socket");
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return raw_socket(fd);
}

/// Says where it listens in a file of the folder, and finds the others there.
struct ring_sockets {
  explicit ring_sockets(one_of_ring const& one) {
    int const door = unpaced_socket();
    sockaddr_in at = loopback_at(0);
    socklen_t size = sizeof at;
    if (door < 0 || ::bind(door, reinterpret_cast<sockaddr*>(&at), size) != 0 || ::listen(door, 8) != 0 ||
        ::getsockname(door, reinterpret_cast<sockaddr*>(&at), &size) != 0)
      fail_socket("listen");
    raw_socket const closes(door);
    std::string const file = one.folder + "/" + std::to_string(one.rank);
    std::ofstream(file + ".new") << ntohs(at.sin_port);
    std::filesystem::rename(file + ".new", file);
    std::vector<std::uint32_t> neighbors{(one.rank + 1) % one.count};
    if (one.count > 2) neighbors.push_back((one.rank + one.count - 1) % one.count);
    for (std::uint32_t const n : neighbors) to.push_back(dial(one.folder + "/" + std::to_string(n)));
    for (std::size_t i = 0; i < neighbors.size(); ++i) from.push_back(without_delay(::accept(door, nullptr, nullptr)));
  }

  std::vector<raw_socket> to, from;

 private:
  static raw_socket dial(std::string const& file) {
    auto const end = peers_clock::now() + std::chrono::seconds(20);
    while (!std::filesystem::exists(file)) {
      if (peers_clock::now() > end) throw std::runtime_error("a process of the ring did not come");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::uint16_t port = 0;
    std::ifstream(file) >> port;
    int const fd = unpaced_socket();
    sockaddr_in const at = loopback_at(port);
    raw_socket made = without_delay(fd);
    if (::connect(fd, reinterpret_cast<sockaddr const*>(&at), sizeof at) != 0) fail_socket("connect");
    return made;
  }
};

/// In each round all parameters go to both neighbors, and theirs come, at the same time.
double run_ring(one_of_ring const& one) {
  ring_sockets const sockets(one);
  std::int64_t const rounds = one.rounds();
  std::vector<std::byte> const mine(one.parameters * sizeof(float));
  std::vector<std::byte> theirs(mine.size());
  peers_clock::time_point start;
  for (std::int64_t k = 0; k <= rounds; ++k) {
    if (k == 1) start = peers_clock::now();
    std::thread sender([&] {
      for (raw_socket const& s : sockets.to) s.write(mine);
    });
    for (raw_socket const& s : sockets.from) s.read(theirs);
    sender.join();
  }
  return seconds_from(start) / static_cast<double>(rounds);
}

void bench_ring_of_sockets(benchmark::State& state, std::uint32_t count, std::size_t parameters) {
  try {
    for (auto _ : state) {
      scratch_directory const meet;
      one_of_ring const one{"sockets", count, 0, meet.path().string(), parameters};
      auto const others = start_others(one, "ring");
      state.SetIterationTime(run_ring(one));
      for (auto const& other : others) (void)other->wait();
    }
  } catch (std::exception const& e) {
    state.SkipWithError(e.what());
  }
}

}  // namespace

void serve_peer(std::vector<std::string> const& words) {
  one_of_ring const one = one_of_ring::parse(words);
  std::future<void> coordinator;
  if (one.rank == 1)
    coordinator = std::async(std::launch::async, [&] { group_of(one, net::role::coordinator).run([](auto&) {}); });
  (void)run_peer(one);
  if (coordinator.valid()) coordinator.get();
}

void serve_ring(std::vector<std::string> const& words) { (void)run_ring(one_of_ring::parse(words)); }

std::vector<micro_row> register_tcp_peers() {
  std::vector<micro_row> rows;
  auto const add = [&](micro_row row, auto bench, auto... arguments) {
    benchmark::RegisterBenchmark(row.name.c_str(), bench, arguments...)->UseManualTime()->Iterations(1);
    rows.push_back(std::move(row));
  };
  std::string const raw_ring = "raw step of 1M floats, ring of 4";
  add({raw_ring, "", 0, "", ""}, bench_ring_of_sockets, 4U, usual_parameters);
  std::string const tcp_ring = "tcp step of 1M floats, ring of 4";
  add({tcp_ring, raw_ring, 0, "", "<= 1.3"}, bench_peers, std::string("hop"), 4U, usual_parameters, true);
  add({"one machine: step of 1M floats, ring of 4", tcp_ring, 0, "", ""}, bench_peers, std::string("hop"), 4U,
      usual_parameters, false);
  // Two peers send each other half of the gradient, and half of the mean: all in all as much as here.
  for (auto const& [size, count] : sizes_of_averages()) {
    std::string const raw = "raw exchange of " + size + " floats, 2 processes";
    add({raw, "", 0, "", ""}, bench_ring_of_sockets, 2U, count);
    std::string const tcp = "tcp all_reduce of " + size + " floats, 2 peers";
    add({tcp, raw, 0, "", ""}, bench_peers, std::string("all_reduce"), 2U, count, true);
    add({"one machine: all_reduce of " + size + " floats, 2 peers", tcp, 0, "", ""}, bench_peers,
        std::string("all_reduce"), 2U, count, false);
  }
  return rows;
}

}  // namespace rubato::bench
