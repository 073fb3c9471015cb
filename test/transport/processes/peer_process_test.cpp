// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Peers in processes of their own, over Unix-domain sockets: what is computed is what the same group computes in one
// process.
#include <Eigen/Core>
#include <catch2/catch.hpp>

#include <array>
#include <atomic>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <rubato/core/random.hpp>
#include <rubato/net/asio_network.hpp>
#include <rubato/peer/ad_psgd.hpp>
#include <rubato/peer/all_reduce.hpp>
#include <rubato/peer/gossip.hpp>
#include <rubato/peer/hop.hpp>
#include <rubato/peer/peer_rules.hpp>
#include <rubato/peer/prague.hpp>
#include <rubato/peer/push_node.hpp>
#include <rubato/peer/push_sum.hpp>
#include <rubato/peer/topologies.hpp>
#include <rubato/transport/in_process.hpp>

#include "seeds.hpp"
#include "transport/noting_nearness.hpp"
#include "transport/processes/peers_apart.hpp"

using namespace rubato;
using namespace rubato::test;
using Catch::Contains;

namespace {

sgd const with_momentum{.rate = 0.1, .momentum = 0.9, .decay = 0.01};

floats first_numbers(std::size_t size) {
  floats x(size);
  random_stream random(7);
  for (float& one : x) one = static_cast<float>(random.uniform()) - 0.5F;
  return x;
}

/// Half of the updates, rounded up, the own one among them.
struct gather_every_other {
  static constexpr keeping kept = keeping::by_iteration;
  static constexpr bool bounds_gap = false;
  static constexpr bool outlives_loss = true;
  [[nodiscard]] static constexpr std::size_t needed(std::size_t n) noexcept { return (n + 1) / 2; }
  [[nodiscard]] static constexpr iteration_index oldest(iteration_index k) noexcept { return k; }
};

/// Runs so many iterations and compares every one with the computation in one place (HOP-3), as well as what all hold
/// together at the end with what they do in one process.
void check_trajectories(graph const& on, peer_rules const& protocol, iteration_order order, floats const& initial,
                        bool background = false) {
  constexpr std::int64_t iterations = 12;
  auto const mixing = mixing_matrix::automatic(on);
  auto const expected =
      test::in_one_place<float>(mixing, order, with_momentum, states(on.size(), initial), iterations);
  auto in_one = make_group(in_process{}, mixing, protocol, initial, with_momentum);
  in_one.run(training(iterations));
  floats const average = in_one.parameters();
  double const spread = in_one.spread();
  in_groups(
      peers_apart(on.size()),
      [&](tcp t) {
        t.background = background;
        return make_group(t, mixing, protocol, initial, with_momentum);
      },
      [&](auto& group, std::uint32_t rank) {
        auto const report = group.run([&](auto& peer) {
          require_that(peer.count() == on.size() && peer.rank() == rank, "a peer is not what it is");
          for (std::int64_t const k : peer.iterations(iterations)) {
            auto const& x = expected[static_cast<std::size_t>(k)][rank];
            require_that(test::same_bits<float>(peer.parameters(), x), "another trajectory");
            require_that(group.observe() == floats(x.begin(), x.end()), "a look shows something else");
            peer.step(test::gradient_at(peer.parameters(), rank, k));
          }
        });
        require_that(test::same_bits<float>(group.parameters(rank), expected.back()[rank]), "another end");
        require_that(test::same_bits<float>(group.parameters(), average), "another average");
        require_that(group.spread() == spread, "another spread");
        require_that(report.iterations() == iterations * on.size(), "not all iterations are in the report");
      });
}

}  // namespace

TEST_CASE("peers apart: each trajectory is that of a computation in one place, bit for bit (HOP-3)",
          "[tcp][peers]") {
  auto const order = GENERATE(iteration_order::parallel, iteration_order::serial);
  floats const initial = first_numbers(3000);
  SECTION("ring") { check_trajectories(ring(4), hop(order), order, initial); }
  SECTION("directed ring") { check_trajectories(directed_ring(3), hop(order), order, initial); }
  SECTION("complete, with tokens") { check_trajectories(complete(3), hop(order, token_queues{1}), order, initial); }
  SECTION("acknowledged") { check_trajectories(ring(3), hop(order, notify_ack{}), order, initial); }
  SECTION("star, in the background") { check_trajectories(star(4), hop(order), order, initial, true); }
  SECTION("two") { check_trajectories(ring(2), hop(order), order, {1, 2}); }
  SECTION("one alone") { check_trajectories(ring(1), hop(order), order, {1, 2}); }
}

TEST_CASE("peers apart: all_reduce keeps all peers alike, as in one process", "[tcp][peers]") {
  constexpr std::uint32_t peers = 3;
  using training_of = std::tuple<std::size_t, std::int64_t, bool>;  // parameters, iterations, in the background
  auto const [size, iterations, background] =  // of the large ones chunks go in pieces
      GENERATE(training_of{1000, 9, false}, training_of{1000, 9, true}, training_of{1'100'000, 2, false},
               training_of{3 * 2 * 131'072 + 1, 2, true});  // peer 0 has a piece more than others
  floats const initial = first_numbers(size);
  auto in_one = make_group(in_process{}, mixing_matrix::automatic(star(peers)), all_reduce{}, initial, with_momentum);
  in_one.run(training(iterations));
  in_groups(
      peers_apart(peers),
      [&, background = background](tcp t) {  // the ring of all_reduce is not the graph
        t.background = background;
        return make_group(t, mixing_matrix::automatic(star(peers)), all_reduce{}, initial, with_momentum);
      },
      [&, iterations = iterations](auto& group, std::uint32_t rank) {
        group.run(training(iterations));
        require_that(test::same_bits<float>(group.parameters(), in_one.parameters()), "not as in one process");
        require_that(test::same_bits<float>(group.parameters(), group.parameters(rank)), "peers are not alike");
        require_that(group.spread() == 0, "peers are apart");
      });
}

TEST_CASE("peers apart: who answers over a Unix-domain socket is near", "[tcp][peers]") {
  constexpr std::uint32_t peers = 3;
  noting_nearness const protocol;
  in_groups(
      peers_apart(peers), [&](tcp const& t) { return make_group(t, ring(peers), protocol); },
      [&](auto& group, std::uint32_t) { group.run(training(9)); });
  CHECK(protocol.steps->near == 8 * peers);
  CHECK(protocol.steps->far == 0);
}

TEST_CASE("peers apart: what comes in step counts as in one process, bit for bit, whoever sends to whom",
          "[tcp][peers]") {
  constexpr std::uint32_t peers = 4;
  peer_rules const protocol = GENERATE(peer_rules(push_sum{}), peer_rules(push_sum{.delay = 2}), peer_rules(prague{}));
  floats const initial = first_numbers(1000);
  auto const mixing = mixing_matrix::push(directed_ring(peers));
  auto in_one = make_group(in_process{}, mixing, protocol, initial, with_momentum);
  in_one.run(training(9));
  in_groups(
      peers_apart(peers), [&](tcp const& t) { return make_group(t, mixing, protocol, initial, with_momentum); },
      [&](auto& group, std::uint32_t rank) {
        group.run(training(9));
        require_that(test::same_bits<float>(group.parameters(rank), in_one.parameters(rank)), "not as in one process");
        require_that(group.spread() == in_one.spread(), "another spread");
      });
}

TEST_CASE("peers apart: no weight that gossip pushes is lost, to the last message", "[tcp][peers]") {
  constexpr std::uint32_t peers = 4;
  bool const background = GENERATE(false, true);
  std::array<double, peers> weights{};
  in_groups(
      peers_apart(peers),
      [&](tcp t) {
        t.background = background;
        return peer_group{t, complete(peers), gossip{}, plain_step{}, floats(50)};
      },
      [&](auto& group, std::uint32_t rank) {
        auto const report = group.run([&](auto& peer) {
          floats const step(50, static_cast<float>(peer.rank()));
          for ([[maybe_unused]] std::int64_t const k : peer.iterations(25)) peer.step(step);
        });
        group.runtime().look_at(rank, [&](peer_node const& n) {
          weights[rank] = dynamic_cast<push_node const&>(n).weight();
        });
        std::uint64_t sent = 0, reduced = 0;
        for (peer_metrics const& m : report.peers) {
          sent += m.updates_sent;
          reduced += m.updates_reduced;
          require_that(m.wait() == duration{}, "somebody waited");
        }
        require_that(report.iterations() == peers * 25 && reduced == sent, "an update is missing");
      });
  CHECK(weights[0] + weights[1] + weights[2] + weights[3] == Approx(peers));
}

TEST_CASE("peers apart: what ad_psgd averages is averaged at both ends, to the last exchange", "[tcp][peers]") {
  constexpr std::uint32_t peers = 4;
  constexpr std::int64_t iterations = 25;
  // Each peer adds its rank in each iteration; averages change nothing about the sum of all.
  float const expected = static_cast<float>(iterations) * (0 + 1 + 2 + 3) / 4;
  bool const background = GENERATE(false, true);
  in_groups(
      peers_apart(peers),
      [&](tcp t) {
        t.background = background;
        return peer_group{t, ring(peers), ad_psgd{}, plain_step{}, floats(50)};
      },
      [&](auto& group, std::uint32_t) {
        auto const report = group.run([&](auto& peer) {
          floats const step(50, static_cast<float>(peer.rank()));
          for ([[maybe_unused]] std::int64_t const k : peer.iterations(iterations)) peer.step(step);
        });
        for (float const x : group.parameters())
          require_that(std::abs(x - expected) < 1e-3F, "a half of an average is missing");
        std::uint64_t sent = 0, reduced = 0;
        for (peer_metrics const& m : report.peers) {
          sent += m.updates_sent;
          reduced += m.updates_reduced;
          require_that(m.bytes_sent >= m.updates_sent * 50 * sizeof(float), "bytes of answers are not counted");
        }
        require_that(report.iterations() == peers * iterations, "iterations are missing in the report");
        // Both sides send half of what there is; each answer is reduced where it went.
        require_that(sent == peers * iterations && reduced == sent, "other exchanges than those asked for");
      });
}

TEST_CASE("peers apart: policies of one's own, backup workers and staleness get to the end", "[tcp][peers]") {
  peer_rules const protocol = GENERATE(peer_rules(hop(gather_every_other{}, token_queues{2})),
                                       peer_rules(hop(gather_all_but{1}, token_queues{4}, bounded_jump{})),
                                       peer_rules(hop(gather_newest{.staleness = 3}, reduce_by_age{})),
                                       peer_rules(hop(gather_hybrid{.staleness = 2}, token_queues{3})));
  in_groups(
      peers_apart(4), [&](tcp const& t) { return make_group(t, ring(4), protocol); },
      [&](auto& group, std::uint32_t rank) {
        auto const report = group.run(training(40));
        require_that(report.peers.size() == 4, "the report is not of all peers");
        for (peer_metrics const& m : report.peers)
          require_that(m.iterations + m.jumped_over == 40, "a peer made another number of iterations");
        require_that(report.elapsed > duration{} && report.crashes == 0, "the run was another one");
        require_that(report.peers[rank].updates_sent > 0, "nothing was sent");
      });
}

TEST_CASE("peers apart: runs follow one another, from where the last one ended", "[tcp][peers]") {
  auto in_one = make_group(in_process{}, ring(3), hop());
  in_one.run(training(5));
  in_one.run(training(4));
  in_groups(
      peers_apart(3), [&](tcp const& t) { return make_group(t, ring(3), hop()); },
      [&](auto& group, std::uint32_t) {
        require_that(group.parameters() == floats({1, -2, 0.5F, 4}), "not the initial parameters");
        group.run(training(5));
        group.run(training(4));
        require_that(test::same_bits<float>(group.parameters(), in_one.parameters()), "not as in one process");
        for (int i = 0; i < 20; ++i) group.run(training(1));
      });
}

TEST_CASE("peers apart: a group follows another one of the same programs", "[tcp][peers]") {
  peers_apart const run(2);
  auto const all = in_peers(
      run,
      [](tcp const& t) {
        for (int i = 0; i < 3; ++i) make_group(t, ring(2), hop()).run([](auto&) {});
      },
      [](tcp const& t, std::uint32_t) {
        for (int i = 0; i < 3; ++i) make_group(t, ring(2), hop()).run(training(3));
      });
  for (outcome const& one : all) CHECK(one.text() == "");
}

TEST_CASE("peers apart: a body that throws ends the run everywhere, with its reason; the next run is as any",
          "[tcp][peers]") {
  in_groups(
      peers_apart(3), [&](tcp const& t) { return make_group(t, ring(3), hop()); },
      [&](auto& group, std::uint32_t rank) {
        std::string thrown;
        try {
          group.run([&](auto& peer) {
            for (std::int64_t const k : peer.iterations(1000)) {
              if (rank == 1 && k == 7) throw std::runtime_error("enough");
              peer.step(test::gradient_at(peer.parameters(), rank, k));
            }
          });
        } catch (std::exception const& e) {
          thrown = e.what();
        }
        require_that(thrown == (rank == 1 ? "enough" : "the run was ended by another process: peer 1: enough"),
                     "it ended with: " + thrown);
        require_that(group.parameters() == group.parameters(rank), "there is an average of a run that failed");
        group.run(training(3));
        require_that(group.spread() >= 0 && group.parameters() != group.parameters(rank), "there is no average");
      });
}

namespace {

/// A plain step that cannot begin while it is told not to.
struct refusing_to_start {
  std::shared_ptr<std::atomic<bool>> refuses = std::make_shared<std::atomic<bool>>(false);
  template <class T>
  auto start(std::size_t size) const {
    if (*refuses) throw std::runtime_error("no room");
    return plain_step{}.start<T>(size);
  }
};
static_assert(local_step<refusing_to_start>);

}  // namespace

TEST_CASE("peers apart: a run that cannot be begun at one is as if it had not been asked for", "[tcp][peers]") {
  std::array<refusing_to_start, 2> steps;
  auto const ends = in_peers(
      peers_apart(2),
      [&](tcp const& t) {
        peer_group group{t, mixing_matrix::automatic(ring(2)), hop(), refusing_to_start{}, floats{1, -2}};
        group.run([](auto&) {});
      },
      [&](tcp const& t, std::uint32_t rank) {
        peer_group group{t, mixing_matrix::automatic(ring(2)), hop(), steps[rank], floats{1, -2}};
        group.run(training(3));
        if (rank == 1) {
          *steps[1].refuses = true;
          std::string thrown;
          try {
            group.run(training(3));
          } catch (std::runtime_error const& e) {
            thrown = e.what();
          }
          require_that(thrown == "no room", "it ended with: " + thrown);
          *steps[1].refuses = false;
        }
        require_that(group.run(training(3)).peers[1].iterations == 3, "the run was not whole");
      });
  for (outcome const& end : ends) CHECK(end.text() == "");
}

namespace {

/// Refuses to dial a peer while it is told to: as one whose certificates are gone.
struct refusing_to_dial : net::network_decorator {
  explicit refusing_to_dial(std::shared_ptr<std::atomic<bool> const> when)
      : network_decorator(std::make_unique<net::asio_network>()), refuses(std::move(when)) {}
  std::shared_ptr<void> dial(net::address const& to, net::security const& keys,
                             net::connection_options const& options, dialed done) override {
    if (*refuses && to.path.find("peer-") != std::string::npos) throw option_error("no certificate");
    return inner().dial(to, keys, options, std::move(done));
  }
  std::shared_ptr<std::atomic<bool> const> refuses;
};

/// What a run of a group ended with.
template <class Group, class Body>
std::string end_of(Group& group, Body body) {
  try {
    group.run(body);
  } catch (std::exception const& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("peers apart: who cannot reach another one ends the run everywhere, also when its body is over",
          "[tcp][peers]") {
  auto const refuses = std::make_shared<std::atomic<bool>>(false);
  in_groups(
      peers_apart(4),
      [&](tcp t) {
        if (t.place.rank == 1) t.network = [&] { return std::make_unique<refusing_to_dial>(refuses); };
        return make_group(t, complete(4), gossip{.probability = 1});
      },
      [&](auto& group, std::uint32_t rank) {
        std::string const expected =
            rank == 1 ? "no certificate" : "the run was ended by another process: peer 1: no certificate";
        auto const body = [&](std::int64_t iterations, bool refuses_at_end) {
          return [&, iterations, refuses_at_end](auto& peer) {
            if (rank == 1) *refuses = !refuses_at_end;
            for (std::int64_t const k : peer.iterations(iterations))
              peer.step(test::gradient_at(peer.parameters(), rank, k));
            if (rank == 1) *refuses = true;
          };
        };
        require_that(end_of(group, body(1, false)) == expected, "a step that fails");
        require_that(end_of(group, body(1, true)) == expected, "a goodbye that fails");
        *refuses = false;
        require_that(end_of(group, training(3)) == "", "the run after it");
      });
}

TEST_CASE("peers apart: one of them stops a run for all", "[tcp][peers]") {
  in_groups(
      peers_apart(3), [&](tcp const& t) { return make_group(t, ring(3), hop()); },
      [&](auto& group, std::uint32_t rank) {
        auto const report = group.run([&](auto& peer) {
          for (std::int64_t const k : peer.iterations(1'000'000)) {
            if (rank == 2 && k == 20) group.stop();
            peer.step(test::gradient_at(peer.parameters(), rank, k));
          }
        });
        require_that(report.iterations() < 1000, "it went on");
      });
}

TEST_CASE("peers apart: cut links lose nothing", "[tcp][peers]") {
  silence_in_peers_log const quiet;
  bool const background = GENERATE(false, true);
  std::int64_t const iterations = test::sanitized() ? 20 : 60;
  auto const mixing = mixing_matrix::automatic(ring(3));
  floats const initial = first_numbers(100'000);
  auto const expected = test::in_one_place<float>(mixing, iteration_order::parallel, with_momentum,
                                                  states(3, initial), iterations);
  in_groups(
      peers_apart(3),
      [&](tcp t) {
        t.background = background;
        return make_group(t, mixing, hop(), initial, with_momentum);
      },
      [&](auto& group, std::uint32_t rank) {
        group.run([&](auto& peer) {
          for (std::int64_t const k : peer.iterations(iterations)) {
            if (k % 5 == rank) group.runtime().cut((rank + 1) % 3);
            peer.step(test::gradient_at(peer.parameters(), rank, k));
          }
        });
        require_that(test::same_bits<float>(group.parameters(rank), expected.back()[rank]), "something was lost");
      });
}

TEST_CASE("peers apart: what one process cannot show, it says", "[tcp][peers]") {
  peers_apart const run(2);
  std::string seen_by_coordinator;
  auto const all = in_peers(
      run,
      [&](tcp const& t) {
        auto group = make_group(t, ring(2), hop());
        group.run([](auto&) {});
        require_that(!group.runtime().has_peers(), "the coordinator has peers");
        try {
          (void)group.parameters();
        } catch (usage_error const& e) {
          seen_by_coordinator = e.what();
        }
      },
      [](tcp const& t, std::uint32_t rank) {
        auto group = make_group(t, ring(2), hop());
        group.run(training(1));
        require_that(group.runtime().has_peers() && group.runtime().rank() == rank, "it is another one");
        (void)group.parameters(1 - rank);
      });
  CHECK_THAT(all[0].text(), Contains("peer 1 is in another process"));
  CHECK_THAT(all[1].text(), Contains("peer 0 is in another process"));
  CHECK(all[2].text() == "");
  CHECK_THAT(seen_by_coordinator, Contains("only processes of peers can read parameters"));
}

// ---- who takes part

TEST_CASE("peers apart: who is of another group is told in what, and so are the others", "[tcp][peers]") {
  silence_in_peers_log const quiet;
  floats const w0{1, 2, 3};
  sgd const step{.rate = 0.5};
  using joining = std::function<void(tcp const&)>;
  auto const [says, join_otherwise] = GENERATE_COPY(Catch::Generators::table<std::string, joining>({
      {"graph: star", [=](tcp const& t) { peer_group{t, star(3), hop(), step, w0}.run([](auto&) {}); }},
      {"weights: given",
       [=](tcp const& t) {
         Eigen::MatrixXd const w = Eigen::MatrixXd::Constant(3, 3, 0.25) + 0.25 * Eigen::MatrixXd::Identity(3, 3);
         peer_group{t, mixing_matrix::given(ring(3), w), hop(), step, w0}.run([](auto&) {});
       }},
      {"parameters: 4 of float",
       [=](tcp const& t) { peer_group{t, ring(3), hop(), step, floats(4)}.run([](auto&) {}); }},
      {"parameters: 3 of double",
       [=](tcp const& t) { peer_group{t, ring(3), hop(), step, std::vector<double>{1, 2, 3}}.run([](auto&) {}); }},
      {"initial parameters: ",
       [=](tcp const& t) { peer_group{t, ring(3), hop(), step, floats{1, 2, 4}}.run([](auto&) {}); }},
      {"local step: 1, -2, 0.5, 3 become 0.5",
       [=](tcp const& t) { peer_group{t, ring(3), hop(), sgd{.rate = 0.25}, w0}.run([](auto&) {}); }},
      {"gap: token queues of 3",
       [=](tcp const& t) { peer_group{t, ring(3), hop(token_queues{3}), step, w0}.run([](auto&) {}); }},
      {"reduce: ", [=](tcp const& t) { peer_group{t, ring(3), hop(reduce_plainly{}), step, w0}.run([](auto&) {}); }},
      {"protocol: push_sum, random groups of 3, seed 7",
       [=](tcp const& t) {
         peer_group{t, ring(3), push_sum{.over = random_groups{.seed = 7}}, step, w0}.run([](auto&) {});
       }},
      {"protocol: all_reduce", [=](tcp const& t) { peer_group{t, ring(3), all_reduce{}, step, w0}.run([](auto&) {}); }},
  }));
  auto const& join = join_otherwise;
  auto const play = [&](std::chrono::milliseconds patience) {
    peers_apart run(3);
    run.shape.patience = patience;
    return in_peers(
        run, [&](tcp const& t) { peer_group{t, ring(3), hop(), step, w0}.run([](auto&) {}); },
        [&](tcp const& t, std::uint32_t rank) {
          if (rank == 1) join(t);
          else peer_group{t, ring(3), hop(), step, w0}.run([](auto&) {});
        });
  };
  auto const one_is_missing = Contains("only 2 of 3 peers are here; the run waits for peer 1");
  auto all = play(500ms);
  // On a machine with other work not all may be there in time.
  for (auto more = 2s; more < 60s && !one_is_missing.match(all[0].text()); more *= 5) all = play(more);
  CHECK_THAT(all[1].text(), Contains("refused this process: peer 1") &&
                                Contains("is of another group than the coordinator's: it says") && Contains(says));
  for (std::size_t const other : {0U, 2U, 3U}) CHECK_THAT(all[other].text(), one_is_missing && Contains(says));
}

namespace {

/// Trusts each peer as much as it is told, and knows of no others.
struct reduce_by_trust {
  std::vector<double> trust;
  std::atomic<bool>* asked_of_others;
  [[nodiscard]] double weight(update_info const& u) const noexcept {
    if (u.from.index() < trust.size()) return trust[u.from.index()];
    *asked_of_others = true;
    return 0;
  }
};

/// Each parameter has a rate of its own.
struct step_by_rates {
  std::vector<float> rates;

  template <std::floating_point T>
  struct state {
    std::vector<float> rates;
    void apply(std::size_t first, std::span<T const>, std::span<T const> gradient, std::span<T> to) const {
      for (std::size_t i = 0; i < to.size(); ++i) to[i] -= static_cast<T>(rates[first + i]) * gradient[i];
    }
  };
  template <std::floating_point T>
  [[nodiscard]] state<T> start(std::size_t size) const {
    require_that(size == rates.size(), "there are other parameters than rates");
    return {rates};
  }
};

}  // namespace

TEST_CASE("peers apart: what they compare asks policies about peers and parameters that there are", "[tcp][peers]") {
  std::atomic<bool> asked_of_others = false;
  step_by_rates const step{first_numbers(10)};
  auto const protocol = hop(reduce_by_trust{{1, 2, 0.5}, &asked_of_others});
  in_groups(
      peers_apart(3), [&](tcp const& t) { return peer_group{t, ring(3), protocol, step, first_numbers(10)}; },
      [](auto& group, std::uint32_t) { group.run(training(3)); });
  CHECK_FALSE(asked_of_others);
}

TEST_CASE("peers apart: what cannot be meant is refused before anything is started", "[tcp][peers]") {
  peers_apart const run(3);
  auto const refused = [&](auto change) {
    tcp t = run.peer(0);
    change(t);
    try {
      make_group(t, ring(3), hop());
    } catch (option_error const& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  CHECK_THAT(refused([](tcp& t) { t.place.servers = 1; }),
             Contains("peers have no servers") && Contains("RUBATO_SERVERS=0"));
  CHECK_THAT(refused([](tcp& t) { t.threads = 2; }), Contains("threads is 2, expected 1"));
  CHECK_THAT(refused([](tcp& t) { t.place.workers = 4; }), Contains("has 3 nodes, but the number of processes is 4"));
  CHECK_THAT(refused([](tcp& t) {
               t.place.listen = net::address{.host = "0.0.0.0", .port = 0};
               t.place.keys.beyond_loopback = true;
             }),
             Contains("deployment::listen"));
  // Each is told of all others: more would be too much for the coordinator.
  CHECK_THROWS_WITH(make_group(peers_apart(2049).peer(0), ring(2049), hop()), Contains("expected at most 2048"));
}

TEST_CASE("peers apart: who comes when a run is under way is told so", "[tcp][peers]") {
  silence_in_peers_log const quiet;
  peers_apart run(2);
  std::string during;
  auto const come = [&run] {
    tcp t = run.peer(0);
    t.place.rank.reset();
    t.place.listen.reset();
    try {
      make_group(t, ring(2), hop());
    } catch (error const& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  in_groups(
      run, [&](tcp const& t) { return make_group(t, ring(2), hop()); },
      [&](auto& group, std::uint32_t rank) {
        group.run([&](auto& peer) {
          for (std::int64_t const k : peer.iterations(3)) {
            if (rank == 0 && k == 1) during = come();
            peer.step(test::gradient_at(peer.parameters(), rank, k));
          }
        });
      });
  CHECK_THAT(during, Contains("a run is under way, and peers do not join one"));
}

TEST_CASE("peers apart: who is lost between runs is missing in the next, from which others go on or not",
          "[tcp][peers]") {
  silence_in_peers_log const quiet;
  bool const has_backup = GENERATE(true, false), throws = GENERATE(true, false);
  peer_rules const protocol =
      has_backup ? peer_rules(hop(gather_all_but{1}, token_queues{4})) : peer_rules(hop(token_queues{4}));
  peers_apart const run(3);
  auto const all = in_peers(
      run, [&](tcp const& t) { make_group(t, ring(3), protocol).run([](auto&) {}); },
      [&](tcp const& t, std::uint32_t rank) {
        auto group = make_group(t, ring(3), protocol);
        group.run(training(5));
        if (rank == 1 && throws) throw std::out_of_range("after the run");
        if (rank == 1) return;  // it leaves
        for (int i = 0; i < 3; ++i) {
          auto const report = group.run(training(30));
          require_that(report.peers[rank].iterations == 30 && group.runtime().crashed(1), "it was another run");
        }
      });
  CHECK(all[1].text() == (throws ? "after the run" : ""));
  for (std::size_t const other : {0U, 2U}) {
    if (has_backup) CHECK(all[other].text() == "");
    else
      CHECK_THAT(all[other].text(),
                 Contains("lost: ") && Contains("peer 1 is lost, and peer ") &&
                     Contains(throws ? "was lost: it was left by an exception after a run" : "has left"));
  }
}
