// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// What a user's project looks like: needs headers, the compiled part and all that it links.
#include <cstdio>
#include <rubato/data/libsvm.hpp>
#include <rubato/net/asio_network.hpp>
#include <rubato/rubato.hpp>
#include <rubato/testing/conformance.hpp>
#include <rubato/version.hpp>
#include <vector>

namespace rb = rubato;

template <class Transport>
float train(Transport transport) {
  rb::cluster cluster{transport, rb::bsp{}, rb::dense<float>{.rows = 10}};
  cluster.run([](auto& worker) {
    std::vector<float> w(10);
    for (int i = 0; i < 5; ++i) {
      worker.pull(w);
      worker.push(std::vector<float>(10, 1.0F));
      worker.step();
    }
  });
  return cluster.parameters()[9];
}

int main() {
  bool const trains = train(rb::in_process{.workers = 2}) == 5 && train(rb::simulated{.workers = 3}) == 5;
  bool const reads = rb::data::parse_libsvm("+1 1:0.5\n-1 2:1\n", "text").features() == 2;
  rb::net::asio_network network;
  auto const door = network.listen({.host = "127.0.0.1", .port = 0}, {}, {}, [](auto) {});
  bool const listens = door->bound().port != 0;
  bool const checks = rb::testing::check_admission(rb::barrier{}).empty();
  std::printf("rubato %d: %s\n", RUBATO_VERSION, trains && reads && listens && checks ? "works" : "broken");
  return trains && reads && listens && checks ? 0 : 1;
}
