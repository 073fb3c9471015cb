// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A program that compiles in no time and links all that the library needs: Boost.Context for the fibers, fmt and
// zlib for data files, OpenSSL for the network.
#include <cstdio>
#include <rubato/data/libsvm.hpp>
#include <rubato/net/asio_network.hpp>
#include <rubato/sim/fibers.hpp>
#include <rubato/version.hpp>

namespace rb = rubato;

int main() {
  bool ran = false;
  rb::sim::fiber_pool fibers;
  fibers.resume(fibers.spawn([&] { ran = true; }));
  bool const reads = rb::data::parse_libsvm("+1 1:0.5\n-1 2:1\n", "text").features() == 2;
  rb::net::asio_network network;
  auto const door = network.listen({.host = "127.0.0.1", .port = 0}, {}, {}, [](auto) {});
  bool const works = ran && reads && door->bound().port != 0;
  std::printf("rubato %d: %s\n", RUBATO_VERSION, works ? "works" : "broken");
  return works ? 0 : 1;
}
