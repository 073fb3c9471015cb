// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/transport/tcp.hpp>

namespace rubato::test {

/// A coordinator, two servers and two worker processes with two threads each, in this one. Calls
/// `program(transport, as worker number)` in each; of the serving ones the number is −1.
class processes {
 public:
  using program_type = std::function<void(tcp const&, int)>;

  explicit processes(std::string const& name, net::on_loss when_lost = net::on_loss::end) {
    place_.coordinator.path = "/tmp/rubato-task-" + name + "-" + std::to_string(::getpid());
    place_.servers = 2;
    place_.workers = 2;
    place_.when_lost = when_lost;
    place_.silence = std::chrono::seconds(10);
    place_.patience = std::chrono::seconds(20);
  }

  /// What each worker process said in the end: nothing, or why it failed.
  std::vector<std::string> run(program_type const& program) {
    std::vector<std::string> said(2);
    std::vector<std::thread> all;
    auto const start = [&](net::role as, int worker) {
      all.emplace_back([&, as, worker] {
        net::deployment place = place_;
        place.as = as;
        if (worker >= 0) place.rank = static_cast<std::uint32_t>(worker);
        try {
          program(tcp{.place = place, .threads = 2}, worker);
        } catch (error const& e) {
          if (worker >= 0) said[static_cast<std::size_t>(worker)] = e.what();
        }
      });
    };
    start(net::role::coordinator, -1);
    for (int s = 0; s < 2; ++s) start(net::role::server, -1);
    for (int w = 0; w < 2; ++w) start(net::role::worker, w);
    for (auto& t : all) t.join();
    return said;
  }

 private:
  net::deployment place_;
};

}  // namespace rubato::test
