// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A partition of one's own: rows are dealt out to the servers one by one, like cards. Prints what the
// conformance test says, and how many rows' bytes each server holds.
#include <cstdio>
#include <rubato/rubato.hpp>
#include <rubato/server/server_group.hpp>
#include <rubato/testing/check_partition.hpp>
#include <vector>

namespace rb = rubato;

struct dealt_out {
  rb::server_id server_of(rb::key k, rb::table_shape shape) const {
    return rb::server_id{static_cast<std::uint32_t>(k.value() % shape.servers)};
  }
};
static_assert(rb::partition_policy<dealt_out>);

int main() {
  auto const violations = rb::testing::check_partition(dealt_out{});
  std::printf("%zu violations\n", violations.size());
  for (auto const& sentence : violations) std::printf("  %s\n", sentence.c_str());

  rb::cluster cluster{rb::in_process{.workers = 2, .servers = 3}, rb::asp{},
                      rb::dense<float, rb::merge_of_protocol, dealt_out>{.rows = 300}};
  cluster.run([](auto& worker) {
    std::vector<std::uint64_t> const keys{0, 1, 299};  // on servers 0, 1 and 2
    worker.push(keys, std::vector<float>(3, 1.0F));
    worker.step();
  });
  std::printf("w[299] is %g\n", static_cast<double>(cluster.parameters()[299]));
  for (std::uint32_t s = 0; s < 3; ++s)
    std::printf("server %u: %zu bytes\n", s, cluster.servers().server(rb::server_id{s}).memory().parameters);
}
