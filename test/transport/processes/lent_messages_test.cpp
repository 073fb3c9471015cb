// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Large parameters between peers on one machine: they are read where they lie, stay as they are until they have been
// returned, and count as those that are sent.
#include <rubato/transport/processes/lent_messages.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rubato/net/asio_network.hpp>
#include <rubato/peer/ad_psgd.hpp>
#include <rubato/peer/all_reduce.hpp>
#include <rubato/peer/hop.hpp>
#include <rubato/peer/hop_core.hpp>
#include <rubato/peer/peer_rules.hpp>
#include <rubato/peer/push_sum.hpp>
#include <rubato/peer/topologies.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/processes/arena_view.hpp>
#include <rubato/transport/processes/update_memory.hpp>

#include "transport/processes/beside_played.hpp"

using namespace rubato;
using namespace rubato::test;
using Catch::Contains;
using detail::update_memory;

namespace {

constexpr std::size_t many = 20'000;  // floats: 80 kB
constexpr std::size_t many_bytes = many * sizeof(float);

/// How often a process says that it reads another one's memory, for as long as this lives.
class counts_sharing {
 public:
  counts_sharing() {
    net::set_log([this](net::log_level, std::string_view line) {
      if (line.find("read in memory that is shared") != std::string_view::npos) ++times;
    });
  }
  ~counts_sharing() { net::set_log({}); }
  counts_sharing(counts_sharing const&) = delete;
  counts_sharing& operator=(counts_sharing const&) = delete;
  std::atomic<int> times = 0;
};

floats ascending(std::size_t size) {
  floats x(size);
  for (std::size_t i = 0; i < size; ++i) x[i] = static_cast<float>(i % 17) - 8;
  return x;
}

/// What all hold after some iterations, and how many of the links share memory.
std::pair<floats, int> averaged_apart(graph const& on, peer_rules const& protocol, bool share, int iterations = 6) {
  counts_sharing const log;
  peers_apart run(on.size());
  run.shape.share_memory = share;
  floats all;
  auto const mixing = mixing_matrix::automatic(on);
  in_groups(
      run, [&](tcp const& t) { return make_group(t, mixing, protocol, ascending(4 * many), sgd{.rate = 0.1}); },
      [&](auto& group, std::uint32_t rank) {
        group.run(training(iterations / 2));
        group.run(training(iterations - iterations / 2));
        if (rank == 0) all = group.parameters();
      });
  return {all, log.times};
}

// ---- one end is played

/// What a real peer among two says, of which the other is played.
struct heard_message {
  std::uint64_t frame = 0;
  wire::peer_meta meta{};
  std::size_t sent = 0;
};

shared_update as_update(std::shared_ptr<update_memory> const& in, floats const& x) {
  update u{.whole = true, .rows = {}, .values = raw_array(in)};
  u.values.append(std::as_bytes(std::span(x)));
  return shared_update(std::move(u));
}

void say(net::link& over, wire::kind kind, std::uint64_t number, std::span<std::byte const> meta = {}) {
  wire::frame_header h;
  h.kind = +kind;
  h.sequence = number;
  over.send(h, meta);
  over.flush();
}
void say_returned(net::link& over, std::uint64_t frame) {
  over.send_reliable(+wire::kind::returned, std::as_bytes(std::span(&frame, 1)));
  over.flush();
}
std::shared_ptr<any_frame const> lent_update(std::int64_t number, std::uint64_t place, std::uint64_t bytes = many_bytes,
                                             std::size_t sent = 0, std::uint32_t run = 1) {
  return std::make_shared<any_frame const>(
      +wire::kind::peer_message,
      wire::to_bytes(wire::peer_meta{stage_id{run}, +hop_kind::update, number, place, bytes}),
      std::vector<std::byte>(sent));
}

/// The update that the real peer waits for after this one of its own. Some of its own are sent until it has heard that
/// its memory is seen, which comes over another connection.
void go_on(played_peer& self, wire::peer_meta const& after) {
  self.send(message_frame(+hop_kind::update, after.number, many_bytes));
}

/// Tells the real peer of a played one's memory, which it then sees.
void lend_from(played_peer& self, update_memory const& memory) {
  self.when_up = [&memory](net::link& up) { say(up, wire::kind::memory, 0, wire::to_bytes(memory.where())); };
  (void)self.dial();
}
/// The same, and sends this once it is seen.
void lend_from(played_peer& self, update_memory const& memory, std::shared_ptr<any_frame const> then) {
  self.when_heard = [&self, then](net::link&, wire::frame_header const& h, auto, auto) {
    if (h.kind == +wire::kind::mapped) self.send(then);
  };
  lend_from(self, memory);
}

}  // namespace

TEST_CASE("lent messages: peers that share memory compute what those compute that do not, bit for bit",
          "[tcp][peers]") {
  struct kind {
    char const* name;
    graph on;
    peer_rules protocol;
  };
  for (kind const& one : {kind{"hop", ring(3), hop()}, kind{"hop, serial", complete(3), hop(iteration_order::serial)},
                          kind{"all_reduce of two", ring(2), all_reduce{}},
                          kind{"all_reduce, in which pieces go on", ring(3), all_reduce{}},
                          kind{"push_sum", ring(3), push_sum{}}}) {
    INFO(one.name);
    auto const [shared, sharing] = averaged_apart(one.on, one.protocol, true);
    auto const [sent, none] = averaged_apart(one.on, one.protocol, false);
    CHECK(sharing > 0);
    CHECK(none == 0);
    CHECK(same_bits<float>(shared, sent));
    auto in_one =
        make_group(in_process{}, mixing_matrix::automatic(one.on), one.protocol, ascending(4 * many), sgd{.rate = 0.1});
    in_one.run(training(3));
    in_one.run(training(3));
    CHECK(same_bits<float>(shared, in_one.parameters()));
  }
}

TEST_CASE("lent messages: averages of two peers keep their sum in shared memory", "[tcp][peers]") {
  counts_sharing const log;
  auto const mixing = mixing_matrix::automatic(ring(4));
  in_groups(
      peers_apart(4), [&](tcp const& t) { return make_group(t, mixing, ad_psgd{}, floats(many, 1), sgd{}); },
      [&](auto& group, std::uint32_t rank) {
        group.run([&](auto& peer) {
          floats const step(many, rank == 0 ? -1.F : 0.F);
          for (std::int64_t const k : peer.iterations(20)) {
            (void)k;
            peer.step(step);
          }
        });
        floats const all = group.parameters();
        require_that(std::ranges::all_of(all, [&](float x) { return x == all.front(); }), "parameters are torn");
      });
  CHECK(log.times > 0);
}

TEST_CASE("lent messages: links that are cut lend again what had not arrived", "[tcp][peers]") {
  silence_in_peers_log const quiet;
  auto const mixing = mixing_matrix::automatic(ring(3));
  auto in_one = make_group(in_process{}, mixing, hop(), floats(many, 1), sgd{.rate = 0.1});
  in_one.run(training(30));
  floats const expected = in_one.parameters();
  in_groups(
      peers_apart(3), [&](tcp const& t) { return make_group(t, mixing, hop(), floats(many, 1), sgd{.rate = 0.1}); },
      [&](auto& group, std::uint32_t rank) {
        group.run([&](auto& peer) {
          for (std::int64_t const k : peer.iterations(30)) {
            if (k % 4 == rank) group.runtime().cut((rank + 1) % 3);
            peer.step(gradient_at(peer.parameters(), rank, k));
          }
        });
        require_that(same_bits<float>(group.parameters(), expected), "another average");
      });
}

TEST_CASE("lent messages: what a peer lends stays as it is until it is returned", "[tcp][peers]") {
  std::vector<heard_message> lent;
  std::unique_ptr<detail::arena_view> view;
  std::vector<floats> as_lent, later;
  auto const look = [&](heard_message const& m) {
    floats x(many);
    std::memcpy(x.data(), view->at(m.meta.place), many_bytes);
    return x;
  };
  ends const e = beside_played(
      hop(),
      [&](played_peer& self) {
        self.when_heard = [&](net::link& from, wire::frame_header const& h, std::span<std::byte const> meta,
                              std::span<std::byte const> body) {
          if (h.kind == +wire::kind::memory) {
            std::string why;
            view = detail::arena_view::open(wire::from_bytes<wire::memory_meta>(meta), why);
            return say(from, wire::kind::mapped, view->where().number);
          }
          if (h.kind != +wire::kind::peer_message) return;
          heard_message m{h.sequence, wire::from_bytes<wire::peer_meta>(meta), body.size()};
          if (m.meta.place == 0) return go_on(self, m.meta);
          lent.push_back(m);
          as_lent.push_back(look(m));
          if (lent.size() < 6) return go_on(self, m.meta);
          for (heard_message const& one : lent) later.push_back(look(one));
          for (heard_message const& one : lent) say_returned(from, one.frame);
          say_returned(from, lent[0].frame);  // a second time
        };
      },
      ascending(many));
  REQUIRE(lent.size() == 6);
  for (std::size_t i = 0; i < lent.size(); ++i) {
    CHECK(lent[i].sent == 0);
    CHECK(lent[i].meta.bytes == many_bytes);
    CHECK(lent[i].meta.place % 64 == 0);
    for (std::size_t k = 0; k < i; ++k) CHECK(lent[i].meta.place != lent[k].meta.place);
    CHECK(same_bits<float>(as_lent[i], later[i]));
    if (i != 0) CHECK_FALSE(same_bits<float>(as_lent[i], as_lent[i - 1]));
  }
  CHECK_THAT(e.played, Contains("was returned, and it has not been lent"));
  CHECK_THAT(e.real, Contains("peer 1 is lost"));
}

TEST_CASE("lent messages: memory that has been returned is written again", "[tcp][peers]") {
  std::vector<std::uint64_t> places;
  (void)beside_played(
      hop(),
      [&](played_peer& self) {
        self.when_heard = [&](net::link& from, wire::frame_header const& h, std::span<std::byte const> meta, auto) {
          if (h.kind == +wire::kind::memory)
            return say(from, wire::kind::mapped, wire::from_bytes<wire::memory_meta>(meta).number);
          if (h.kind != +wire::kind::peer_message) return;
          auto const m = wire::from_bytes<wire::peer_meta>(meta);
          if (m.place == 0) return go_on(self, m);
          places.push_back(m.place);
          say_returned(from, h.sequence);
          self.send(message_frame(places.size() < 40 ? +hop_kind::update : 99, m.number, many_bytes));
        };
      },
      ascending(many));
  CHECK(places.size() == 40);
  CHECK(std::set<std::uint64_t>(places.begin(), places.end()).size() < 10);  // each used often
}

TEST_CASE("lent messages: who returns nothing is lent half of the memory, and sent the rest", "[tcp][peers]") {
  std::vector<std::size_t> sent;
  (void)beside_played(
      hop(),
      [&](played_peer& self) {
        self.when_heard = [&](net::link& from, wire::frame_header const& h, std::span<std::byte const> meta,
                              std::span<std::byte const> body) {
          if (h.kind == +wire::kind::memory)
            return say(from, wire::kind::mapped, wire::from_bytes<wire::memory_meta>(meta).number);
          if (h.kind != +wire::kind::peer_message) return;
          auto const m = wire::from_bytes<wire::peer_meta>(meta);
          if (sent.empty() && m.place == 0) return go_on(self, m);
          sent.push_back(body.size());
          self.send(message_frame(sent.size() < 20 ? +hop_kind::update : 99, m.number, many_bytes));
        };
      },
      ascending(many));
  REQUIRE(sent.size() == 20);
  constexpr std::size_t half = update_memory::lent_max(many_bytes) / many_bytes;
  for (std::size_t i = 0; i < sent.size(); ++i) CHECK(sent[i] == (i < half ? 0 : many_bytes));
}

TEST_CASE("lent messages: memory that nobody has seen is not lent", "[tcp][peers]") {
  int const wrong = GENERATE(0, 1);  // another memory than that which it was told of; none
  std::vector<std::size_t> sent;
  (void)beside_played(
      hop(),
      [&](played_peer& self) {
        self.when_heard = [&](net::link& from, wire::frame_header const& h, std::span<std::byte const> meta,
                              std::span<std::byte const> body) {
          if (h.kind == +wire::kind::memory && wrong == 0)
            say(from, wire::kind::mapped, wire::from_bytes<wire::memory_meta>(meta).number + 1);
          if (h.kind != +wire::kind::peer_message) return;
          sent.push_back(body.size());
          self.send(message_frame(sent.size() < 3 ? +hop_kind::update : 99,
                                  wire::from_bytes<wire::peer_meta>(meta).number, many_bytes));
        };
      },
      ascending(many));
  CHECK(sent == std::vector<std::size_t>(3, many_bytes));
}

TEST_CASE("lent messages: what a neighbor lends is averaged, and returned", "[tcp][peers]") {
  net::asio_network network;
  auto const memory = update_memory::make(many_bytes, network);
  REQUIRE(memory);
  auto const values = as_update(memory, floats(many, 3));
  std::uint64_t const place = memory->place_of(values->values.bytes());
  std::optional<std::uint64_t> returned;
  floats second;
  (void)beside_played(
      hop(),
      [&](played_peer& self) {
        self.when_heard = [&](net::link&, wire::frame_header const& h, std::span<std::byte const> meta,
                              std::span<std::byte const> body) {
          if (h.kind == +wire::kind::mapped) self.send(lent_update(0, place));
          if (h.kind == +wire::kind::returned) std::memcpy(&returned.emplace(), body.data(), sizeof *returned);
          if (h.kind == +wire::kind::peer_message && wire::from_bytes<wire::peer_meta>(meta).number == 1) {
            second.resize(many);
            std::memcpy(second.data(), body.data(), body.size());
          }
          if (returned && !second.empty()) self.send(message_frame(99, 0, 0));
        };
        lend_from(self, *memory);
      },
      floats(many, 1));
  CHECK(returned == 1);
  floats const own(many, 1);
  floats const gradient = gradient_at<float>(own, 0, 0);
  bool all_as_expected = second.size() == many;
  for (std::size_t i = 0; i < second.size(); ++i)
    all_as_expected = all_as_expected && std::abs(second[i] - (2 - sgd{}.rate * gradient[i])) < 1e-6;
  CHECK(all_as_expected);
}

TEST_CASE("lent messages: a neighbor that lends what is not there is cut off", "[tcp][peers]") {
  net::asio_network network;
  auto const memory = update_memory::make(many_bytes, network);
  REQUIRE(memory);
  auto const place = memory->place_of(as_update(memory, floats(many, 3))->values.bytes());
  auto const [update, says] = GENERATE_COPY(Catch::Generators::table<std::shared_ptr<any_frame const>, std::string>({
      {lent_update(0, (memory->where().bytes - 64) / 64 * 64), "bytes lie at"},
      {lent_update(0, std::uint64_t{0} - 64), "bytes lie at"},
      {lent_update(0, 64), "bytes lie at 64"},
      {lent_update(0, place + 4), "expected a multiple of 64"},
      {lent_update(0, place, many_bytes + 4), "expected at most"},
      {lent_update(0, place, ~std::uint64_t{0} - 3), "expected at most"},
      {lent_update(0, place, 6), "whole ones of float"},
      {lent_update(0, place, many_bytes, 4), "and in the message"},
      {lent_update(0, place, 64), "breaks the protocol"},
  }));
  auto const of = update;
  ends const e = beside_played(
      hop(),
      [&](played_peer& self) { lend_from(self, *memory, of); },
      floats(many, 1));
  INFO(e.real);
  CHECK_THAT(e.played, Contains(says));
  CHECK_THAT(e.real, Contains("peer 1 is lost"));
}

TEST_CASE("lent messages: a neighbor lends only what it has told of, and one memory", "[tcp][peers]") {
  net::asio_network network;
  auto const memory = update_memory::make(many_bytes, network);
  auto const another = update_memory::make(many_bytes, network);
  std::string says;
  played_peer::script script;
  SECTION("none") {
    says = "memory that this process does not see";
    script = [](played_peer& self) { self.send(lent_update(0, 4096)); };
  }
  SECTION("two") {
    says = "in place of what was lent before";
    script = [&](played_peer& self) {
      self.when_heard = [&](net::link& from, wire::frame_header const& h, auto, auto) {
        if (h.kind == +wire::kind::mapped) say(from, wire::kind::memory, 0, wire::to_bytes(another->where()));
      };
      lend_from(self, *memory);
    };
  }
  SECTION("it is returned before it is lent") {
    says = "message 1 was returned, and it has not been lent";
    script = [](played_peer& self) { say_returned(self.dial(), 1); };
  }
  ends const e = beside_played(hop(), script, floats(many, 1));
  CHECK_THAT(e.played, Contains(says));
  CHECK_THAT(e.real, Contains("peer 1 is lost"));
}

TEST_CASE("lent messages: a message that nobody wants any more is returned, too", "[tcp][peers]") {
  net::asio_network network;
  auto const memory = update_memory::make(many_bytes, network);
  REQUIRE(memory);
  auto const values = as_update(memory, floats(many, 3));
  std::uint64_t const place = memory->place_of(values->values.bytes());
  std::optional<std::uint64_t> returned;
  (void)beside_played(
      hop(),
      [&](played_peer& self) {
        self.when_heard = [&](net::link&, wire::frame_header const& h, auto, std::span<std::byte const> body) {
          constexpr std::uint32_t past = 0;
          if (h.kind == +wire::kind::mapped) self.send(lent_update(0, place, many_bytes, 0, past));
          if (h.kind != +wire::kind::returned) return;
          std::memcpy(&returned.emplace(), body.data(), sizeof *returned);
          self.send(message_frame(99, 0, 0));
        };
        lend_from(self, *memory);
      },
      floats(many, 1));
  CHECK(returned == 1);
}

TEST_CASE("lent messages: borrowed parameters are written by nobody, and what is alone may be") {
  net::asio_network network;
  auto const memory = update_memory::make(many_bytes, network);
  REQUIRE(memory);
  shared_update own = as_update(memory, floats(many, 3));
  auto const over = std::make_shared<detail::frames_over>();
  std::string why;
  std::shared_ptr<detail::arena_view const> const view = detail::arena_view::open(memory->where(), why);
  std::uint64_t const place = memory->place_of(own->values.bytes());
  auto const frame = std::make_shared<detail::borrowed_frame>(over, detail::frames_over::frame{0, 1}, view);
  shared_update borrowed(
      update{.whole = true, .rows = {}, .values = raw_array::borrowed(frame, view->at(place), many_bytes)});
  CHECK(borrowed->values.is_borrowed());
  CHECK_FALSE(own->values.is_borrowed());
  CHECK_FALSE(borrowed.take_if_alone());
  CHECK(borrowed->values.size_bytes() == many_bytes);
  CHECK(own.take_if_alone());
}
