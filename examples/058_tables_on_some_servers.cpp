// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Which server holds what: a few rows that everybody uses all the time have a server of their own, and many
// others are on the rest, split where the user says.
#include <cstdio>
#include <rubato/rubato.hpp>
#include <rubato/server/server_group.hpp>
#include <vector>

namespace rb = rubato;

int main() {
  constexpr std::uint64_t hot = 16, words = 30'000;
  rb::on_servers<> const alone{{0}};
  // Servers 1, 2 and 3: frequent words come first, so server 1 gets fewer of them.
  rb::on_servers<rb::key_ranges> const others({1, 2, 3}, rb::key_ranges({0, 2000, 10'000}));
  rb::cluster cluster{
      rb::in_process{.workers = 4, .servers = 4}, rb::ssp{.staleness = 1},
      rb::dense<float, rb::merge_of_protocol, rb::on_servers<>>{.rows = hot, .partition = alone},
      rb::dense<float, rb::merge_of_protocol, rb::on_servers<rb::key_ranges>>{
          .rows = words, .width = 8, .partition = others}};

  cluster.run([](auto& worker) {
    std::vector<float> w(hot), rows(3 * 8);
    for (std::uint64_t clock = 0; clock < 20; ++clock) {
      std::vector<std::uint64_t> const seen{clock, 1000 * clock, words - 1 - worker.rank()};
      worker.pull(w);                         // from server 0
      worker[rb::table<1>].pull(seen, rows);  // from servers 1 and 3, and from 2 at times
      worker.push(std::vector<float>(hot, 0.5F));
      worker[rb::table<1>].push(seen, std::vector<float>(rows.size(), 1.0F));
      worker.step();  // all servers hear of it: each counts the clocks
    }
  });
  std::printf("w[0] is %g, the first word's row begins with %g\n", cluster.parameters()[0],
              cluster.parameters<1>()[0]);
  for (std::uint32_t s = 0; s < 4; ++s)
    std::printf("server %u: %zu bytes\n", s,
                cluster.servers().server(rb::server_id{s}).memory().parameters);
}
