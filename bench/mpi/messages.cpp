// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/mpi/messages.hpp"

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "rubato/cluster/cluster.hpp"
#include "rubato/cluster/peer_group.hpp"
#include "rubato/core/error.hpp"
#include "rubato/net/mpi_network.hpp"
#include "rubato/peer/all_reduce.hpp"
#include "rubato/peer/topologies.hpp"
#include "rubato/protocol/asp.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/transport/mpi.hpp"

namespace rubato::bench {
namespace {

constexpr int server_rank = 1, worker_rank = 2;
constexpr std::size_t large_bytes = std::size_t{16} << 20;
constexpr std::size_t summed = 1'000'000;  // floats

template <class F>
double seconds_of(F f) {
  auto const start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> v) {
  if (v.empty()) return 0;
  std::ranges::nth_element(v, v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2));
  return v[v.size() / 2];
}

/// As long as a request for one row; and then an answer of so many bytes.
double ping_pong(int rank, std::size_t answer, int times) {
  constexpr std::size_t question = 120;
  std::vector<std::byte> bytes(std::max(answer, question));
  auto const send = [&](int to, std::size_t size) {
    MPI_Send(bytes.data(), static_cast<int>(size), MPI_BYTE, to, 0, MPI_COMM_WORLD);
  };
  auto const receive = [&](int from, std::size_t size) {
    MPI_Recv(bytes.data(), static_cast<int>(size), MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  };
  std::vector<double> took;
  for (int i = 0; i < times; ++i) {
    if (rank == server_rank) receive(worker_rank, question), send(worker_rank, answer);
    if (rank == worker_rank)
      took.push_back(seconds_of([&] { send(server_rank, question), receive(server_rank, answer); }));
  }
  return median(std::move(took));
}

/// One row each time, another one, so that each is fetched.
double pull_rows(int times) {
  constexpr std::uint64_t rows = 1 << 16;
  constexpr std::uint64_t rows_of_a_clock = 256;
  std::vector<double> took;
  cluster c{mpi{}, asp{}, dense<float>{.rows = rows}};
  c.run([&](auto& w) {
    std::vector<float> out(1);
    for (std::uint64_t next = 0; next < static_cast<std::uint64_t>(times); ++next) {
      if (next % rows_of_a_clock == 0) {
        w.commit();  // empty: it only makes the worker forget its rows
        w.pull(std::array{key{0}}, out, staleness{0});
      }
      std::array const one{key{1 + next * 5 % (rows - 1)}};
      took.push_back(seconds_of([&] { w.pull(one, out); }));
    }
  });
  return median(std::move(took));
}

/// The whole table each time, in a clock of its own, so that each is fetched.
double pull_whole(int times) {
  constexpr std::uint64_t rows = large_bytes / sizeof(float);
  std::vector<double> took;
  cluster c{mpi{}, asp{}, dense<float>{.rows = rows}};
  c.run([&](auto& w) {
    std::vector<float> row(1), all(rows);
    for (int i = -2; i < times; ++i) {  // the first ones take fresh memory
      w.commit();
      w.pull(std::array{key{0}}, row, staleness{0});
      double const one = seconds_of([&] { w.pull(all); });
      if (i >= 0) took.push_back(one);
    }
  });
  return median(std::move(took));
}

/// By server and worker alone.
double add_up_plainly(int rank, int times) {
  MPI_Comm both = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 0, rank, &both);
  if (both == MPI_COMM_NULL) return 0;
  std::vector<float> mine(summed, 1e-3F), total(summed);
  std::vector<double> took;
  for (int i = 0; i < times; ++i)
    took.push_back(seconds_of([&] {
      MPI_Allreduce(mine.data(), total.data(), static_cast<int>(summed), MPI_FLOAT, MPI_SUM, both);
    }));
  MPI_Comm_free(&both);
  return median(std::move(took));
}

/// The same two as peers, which average their gradients and make a step.
double all_reduce_among_peers(int times, bool collectives) {
  std::vector<double> took;
  peer_group g{mpi{.place = {.servers = 0}, .collectives = collectives}, ring(2), all_reduce{}, plain_step{},
               std::vector<float>(summed)};
  g.run([&](auto& peer) {
    std::vector<float> const gradient(summed, 1e-3F);
    for (std::int64_t const k : peer.iterations(times + 2)) {  // the first ones take fresh memory
      double const one = seconds_of([&] { peer.step(gradient); });
      if (k >= 2) took.push_back(one);
    }
  });
  return median(std::move(took));
}

struct line {
  char const* name;
  std::vector<double> plain, pulls, ratios;
};

/// In microseconds; of the ratios that of each round, and the least and the greatest of them.
std::string text_of(line& l) {
  double const ratio = median(l.ratios);
  auto const [least, greatest] = std::ranges::minmax(l.ratios);
  return fmt::format("{:<18} {:>12.2f} {:>12.2f} {:>8.2f}x {:>7.2f}x to {:.2f}x\n", l.name, 1e6 * median(l.plain),
                     1e6 * median(l.pulls), ratio, least, greatest);
}

}  // namespace

void message_options::add_to(CLI::App& command) {
  command.add_option("--rounds", rounds, "in each of which everything is measured once; medians are shown")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--small", small, "messages of one row in a round")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command.add_option("--large", large, "messages of 16 MB in a round")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
}

void measure_messages(message_options const& o) {
  auto const self = net::this_mpi_rank();
  if (self.count != 3)
    throw option_error(fmt::format("rubato-bench mpi: there are {} ranks, expected 3, as of mpirun -n 3", self.count));
  int const rank = static_cast<int>(self.number);
  std::array<line, 4> lines{line{"one row", {}, {}, {}}, line{"16 MB", {}, {}, {}},
                            line{"all_reduce, 1M", {}, {}, {}}, line{"by messages", {}, {}, {}}};
  for (int round = 0; round < o.rounds; ++round) {
    std::array<std::array<double, 2>, 4> found{};
    found[0] = {ping_pong(rank, 80, o.small), pull_rows(o.small)};
    found[1] = {ping_pong(rank, large_bytes, o.large), pull_whole(o.large)};
    found[2] = {add_up_plainly(rank, o.large), all_reduce_among_peers(o.large, true)};
    found[3] = {found[2][0], all_reduce_among_peers(o.large, false)};
    // They are the worker's.
    MPI_Bcast(&found, 2 * static_cast<int>(found.size()), MPI_DOUBLE, worker_rank, MPI_COMM_WORLD);
    for (std::size_t i = 0; i < found.size(); ++i) {
      lines[i].plain.push_back(found[i][0]);
      lines[i].pulls.push_back(found[i][1]);
      lines[i].ratios.push_back(found[i][1] / found[i][0]);
    }
  }
  if (rank != 0) return;
  fmt::print("{:<18} {:>12} {:>12} {:>9} {:>17}\n", "medians, us", "plain MPI", "Rubato", "ratio", "of each round");
  for (line& l : lines) fmt::print("{}", text_of(l));
}

}  // namespace rubato::bench
