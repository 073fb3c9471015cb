// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Who comes before the first run, in which place, and what all of them must agree on.
#include <rubato/transport/processes/process_control.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <string>
#include <variant>

#include <rubato/wire/control.hpp>

#include "transport/processes/process_control_bench.hpp"

using namespace rubato;
using namespace rubato::test::control;
using Catch::Contains;

TEST_CASE("process_control: workers are welcomed once all servers are there, and told where they are") {
  bench b(2, 2);
  CHECK(b.come().at == nth_worker(0));
  CHECK(b.serve() == 0);
  CHECK(b.told(nth_worker(0)).empty());
  CHECK(b.control.attendance() == "1 of 2 servers and 1 of 2 workers are here");
  CHECK(b.told(nth_server(0)) == list{"welcome 0.0 to 0", "admit 0.0"});
  CHECK(b.serve() == 1);
  CHECK(b.told(nth_worker(0)) == list{"welcome 0.0 to 2, initial values"});
  CHECK_FALSE(b.control.is_complete());
  CHECK(b.come().at == nth_worker(1));
  CHECK(b.told(nth_worker(1)) == list{"welcome 1.0 to 2"});
  CHECK(b.told(nth_worker(0)).empty());
  CHECK(b.control.is_complete());
}

TEST_CASE("process_control: who asks for a number gets it, others the next one that is free") {
  bench b(1, 3);
  CHECK(b.come(1).at == nth_worker(1));
  CHECK(b.come().at == nth_worker(0));
  CHECK(b.come().at == nth_worker(2));
}

TEST_CASE("process_control: servers hear of each life of a worker process, those that come late of all that are here") {
  bench b(2, 2, net::on_loss::go_on);
  CHECK(b.serve() == 0);
  (void)b.come(1);
  CHECK(b.told(nth_server(0)) == list{"welcome 0.0 to 0", "admit 1.0"});
  b.lose(nth_worker(1));
  CHECK(b.come(1).incarnation == 1);
  CHECK(b.told(nth_server(0)) == list{"expel 1.0", "admit 1.1"});
  CHECK(b.serve() == 1);
  CHECK(b.told(nth_server(1)) == list{"welcome 1.0 to 0", "admit 1.1"});
  (void)b.come(0);
  CHECK(b.told(nth_server(0)) == list{"admit 0.0"});
  CHECK(b.told(nth_server(1)) == list{"admit 0.0"});
}

TEST_CASE("process_control: a worker process and the servers are told its secret, each life's its own") {
  bench b(1, 1);
  std::uint32_t const rank = 0;
  wire::secret const drawn{1, 2, 3};
  (void)b.control.enroll({net::role::worker, rank, "", "", 1}, drawn);
  (void)b.serve();
  int told = 0;
  for (auto const& [to, message] : b.control.take()) {
    if (auto const* w = std::get_if<wire::welcome>(&message); w != nullptr && to == nth_worker(0))
      told += w->secret == drawn ? 1 : 0;
    if (auto const* a = std::get_if<wire::admission>(&message))
      told += a->secret == drawn && to == nth_server(0) ? 1 : 0;
    if (auto const* w = std::get_if<wire::welcome>(&message); w != nullptr && to == nth_server(0))
      CHECK(w->secret == wire::secret{});
  }
  CHECK(told == 2);
}

TEST_CASE("process_control: places that are taken, or not there, are refused with a sentence") {
  bench b = gathered(1, 1);
  CHECK_THAT(refusal_of([&] { b.serve(); }), Contains("no room for number 1"));
  CHECK_THAT(refusal_of([&] { (void)b.come(0); }), Contains("worker 0 is here already"));
  CHECK_THAT(refusal_of([&] { (void)b.come(1); }),
             Contains("this run has 1 workers, numbered from 0, and no room for number 1"));
  CHECK(b.come().at == nth_worker(1));  // who comes late may be one more
  b.lose(nth_worker(1));
  CHECK(b.come(1).incarnation == 1);
  wire::registration r{net::role::server, 0U, "", "", 1};
  CHECK_THAT(refusal_of([&] { (void)b.control.enroll(r, {}); }),
             Contains("server 0 is here already"));
  r.as = net::role::coordinator;
  CHECK_THAT(refusal_of([&] { (void)b.control.enroll(r, {}); }),
             Contains("coordinator already"));
  b.lose(nth_server(0));
  CHECK_THAT(refusal_of([&] { (void)b.come(); }), Contains("the run is over: server 0 (here)"));
}

TEST_CASE("process_control: who goes before the first run is replaced by the next with its number") {
  net::on_loss const when = GENERATE(net::on_loss::end, net::on_loss::go_on);
  bench b(1, 2, when);
  b.serve();
  (void)b.come();
  b.lose(nth_worker(0));
  CHECK_FALSE(b.control.is_over());
  CHECK(b.come(0).incarnation == 1);
  CHECK(b.come(1).incarnation == 0);
  b.ready(0);
  CHECK_FALSE(b.control.is_running());
  b.ready(1);
  CHECK(b.control.is_running());
}

TEST_CASE("process_control: a server that goes before workers know it is replaced, and gets its values anew") {
  bench b(2, 1);
  b.serve();
  b.lose(nth_server(0));
  (void)b.come();
  CHECK_FALSE(b.control.is_over());
  CHECK(b.serve() == 0);
  CHECK(b.serve() == 1);
  CHECK(b.told(nth_worker(0)) == list{"welcome 0.0 to 2, initial values"});
  b.lose(nth_server(0));  // its address is known
  CHECK(b.control.is_over());

  bench again(1, 2);
  again.serve();
  (void)again.come();
  again.say(nth_worker(0), wire::ready{0, false, 0, false, 0, 1});  // the values are where they belong
  again.lose(nth_worker(0));
  again.lose(nth_server(0));
  again.serve();
  again.forget();
  (void)again.come();
  CHECK(again.told(nth_worker(0)) == list{"welcome 0.1 to 1, initial values"});
}

// ---- what all agree on

TEST_CASE("process_control: what is agreed on is what those say who are here, not who was first") {
  bench b(1, 1);
  SECTION("a worker that has left") {
    (void)b.come(0, "bsp; 2 rows");
    b.say(nth_worker(0), wire::farewell{});
  }
  SECTION("a worker that was lost") {
    (void)b.come(0, "bsp; 2 rows");
    b.lose(nth_worker(0));
  }
  SECTION("a server that was lost") {
    b.serve("bsp; 2 rows");
    b.lose(nth_server(0));
  }
  SECTION("one that was refused") {
    wire::registration const r{net::role::server, 7U, "", "bsp; 2 rows", 1};
    CHECK_THAT(refusal_of([&] { (void)b.control.enroll(r, {}); }), Contains("no room for number 7"));
  }
  CHECK(b.serve("ssp; 3 rows") == 0);
  (void)b.come(0, "ssp; 3 rows");
  b.ready(0);
  CHECK(b.control.is_running());
  b.say(nth_worker(0), wire::farewell{});
  CHECK_THAT(refusal_of([&] { (void)b.come(1, "bsp; 2 rows"); }), Contains("expected \"ssp; 3 rows\""));
}

TEST_CASE("process_control: who takes silent ones for lost after another time is told so, and so are others") {
  process_control::options o{.workers = 2, .servers = 1};
  o.silence = std::chrono::seconds(5);
  bench b(o);
  wire::registration r{.as = net::role::worker, .rank = 0U, .listens = "", .agreed = "", .pid = 1};
  r.silence = GENERATE(60'000, 4'999);
  std::string const other = "worker 0 (process 1) has a silence (RUBATO_SILENCE) of " + std::to_string(r.silence) +
                            " ms; expected the coordinator's, 5000 ms: the same on all";
  CHECK(refusal_of([&] { (void)b.control.enroll(r, {}); }) == other);
  CHECK_THAT(b.control.awaited(), Contains(other));
  r.silence = 5000;
  CHECK(b.control.enroll(r, {}).at == nth_worker(0));
}

TEST_CASE("process_control: who does not agree is told who says what") {
  bench b(2, 3);
  (void)b.come(1, "ssp; 2 servers; table 0: 500 rows; table 1: 7 rows");
  auto const refused = [&](char const* agreed) {
    return refusal_of([&] { (void)b.control.enroll({net::role::server, 0U, "", agreed, 12}, {}); });
  };
  std::string const wrong = "server 0 (process 12) runs another protocol or other tables than worker 1 (process 1)";
  CHECK(refused("ssp; 2 servers; table 0: 501 rows; table 1: 7 rows") ==
        wrong + ": it says \"table 0: 501 rows\"; expected \"table 0: 500 rows\"");
  CHECK(refused("ssp; 2 servers; table 0: 500 rows") == wrong + ": it says nothing; expected \"table 1: 7 rows\"");
  CHECK(refused("\x1b[2J; 2 servers; table 0: 500 rows; table 1: 7 rows") ==
        wrong + ": it says \"\\x1b[2J\"; expected \"ssp\"");
  (void)b.come(0, "ssp; 2 servers; table 0: 500 rows; table 1: 7 rows");
  CHECK_THAT(refused("asp"), Contains("than worker 0 (process 1) and another one: it says \"asp\""));
  CHECK(refused(("ssp; " + std::string(9000, 'x')).c_str()).size() < 1000);
  CHECK_THAT(refused(("ssp; 2 servers; table 0: 500 rows; table 1: 7 rows" + std::string(5000, 'x') + "7").c_str()),
             Contains("7 rowsxxx"));

  process_control::options o{.workers = 1, .servers = 1};
  o.agreed = "ssp";
  bench fixed(o);
  CHECK_THAT(refusal_of([&] { (void)fixed.come(0, "asp"); }),
             Contains("worker 0 (process 1) runs another protocol or other tables than the coordinator: it says "
                      "\"asp\"; expected \"ssp\""));
}
