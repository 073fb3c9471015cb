// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Runs of processes that prove to each other who they are: they come to the same, and whoever
// cannot prove it takes no part.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "net/certificates.hpp"
#include "net/free_port.hpp"
#include "process/checks.hpp"
#include "process/proxies.hpp"
#include "process/runs.hpp"
#include "rubato/net/asio_network.hpp"
#include "rubato/net/link.hpp"
#include "rubato/transport/processes/outbound_frames.hpp"

using namespace rubato;
using namespace std::chrono_literals;
using Catch::Contains;
using test::check_error;

namespace {

constexpr std::uint32_t workers = 2;
constexpr std::uint32_t servers = 2;

/// Files that tokens and certificates are in, and the variables that name them.
class key_files {
 public:
  key_files() {
    std::ofstream(file("token")) << "open sesame\n";
    auto const authority = test::make_authority("Authority of the tests");
    auto const stranger = test::make_authority("Another authority");
    test::write_certificate(authority, file("authority"));
    test::write_certificate(stranger, file("stranger"));
    add("member", test::make_identity(authority, "member.test"));
    for (std::string const place : {"coordinator", "server/0", "server/1", "worker/0", "worker/1"}) {
      std::string name = place;
      std::ranges::replace(name, '/', '-');
      add(name, test::make_identity(authority, name + ".test", 30, ",URI:rubato:" + place));
    }
    add("expired", test::make_identity(authority, "expired.test", -1));
    add("foreign", test::make_identity(stranger, "foreign.test"));
  }
  [[nodiscard]] test::variables token_file() const {
    return {{"RUBATO_TOKEN_FILE", file("token")}};
  }
  [[nodiscard]] net::security keys(std::string const& name) const {
    return {.token = {},
            .tls = net::tls_files{file(name + "-certificate"), file(name + "-key"), file("authority")}};
  }
  [[nodiscard]] test::variables tls(std::string const& name,
                                    std::string const& authority = "authority") const {
    return {{"RUBATO_TLS_CERTIFICATE", file(name + "-certificate")},
            {"RUBATO_TLS_KEY", file(name + "-key")},
            {"RUBATO_TLS_AUTHORITY", file(authority)}};
  }

 private:
  [[nodiscard]] std::string file(std::string const& name) const {
    return (folder_.path() / (name + ".pem")).string();
  }
  void add(std::string const& name, test::identity const& who) const {
    test::write_certificate(who, file(name + "-certificate"));
    test::write_key(who, file(name + "-key"));
  }
  test::scratch folder_;
};

key_files const& files() {
  static key_files const made;
  return made;
}

test::variables token(std::string const& text) { return {{"RUBATO_TOKEN", text}}; }
test::variables both(test::variables all, test::variables const& more) {
  all.insert(more.begin(), more.end());
  return all;
}

test::run_plan small_run(test::variables const& keys, test::words options = {}) {
  test::run_plan plan{.workers = workers, .servers = servers, .options = std::move(options)};
  // The last of equal names counts.
  plan.options.insert(plan.options.begin(), {"--clocks", "40", "--columns", "2"});
  plan.settings = keys;
  return plan;
}

/// What a worker process says that the run came to.
std::string result_of(test::child const& w) {
  std::string all;
  for (char const* name : {"counts", "keys", "keyed", "weights", "updates"})
    all += w.value(name) + "\n";
  return all;
}

void check_result(test::process_run& run, std::string const& expected) {
  std::string const failed = run.failures();
  INFO(run.errors());
  REQUIRE(failed.empty());
  for (std::size_t i = 0; i < workers; ++i) CHECK(result_of(run.worker(i)) == expected);
}

/// What a run comes to that nobody has to prove anything for.
std::string open_result(test::words const& options = {}) {
  test::process_run run(small_run({}, options));
  std::string const failed = run.failures();
  INFO(run.errors());
  REQUIRE(failed.empty());
  return result_of(run.worker(0));
}

void check_meddled(test::variables const& keys, tools::meddling const& m) {
  // Pieces take time.
  test::words const options =
      m.cut_within == 0 ? test::words{"--clocks", "10", "--weights", "20"} : test::words{};
  auto plan = small_run(keys, options);
  test::proxies const between(plan, m);
  test::process_run run(plan);
  check_result(run, open_result(options));
  if (m.cut_within != 0) CHECK(between.cuts() > 3);
}

}  // namespace

TEST_CASE("with a token a run comes to the same, wherever the token is from",
          "[process][security]") {
  auto plan = small_run({});
  plan.own_settings = [](std::string const& role, std::uint32_t rank) {
    return role == "coordinator" || rank == 0 ? token("open sesame") : files().token_file();
  };
  test::process_run run(plan);
  check_result(run, open_result());
}

namespace {
/// This machine's number on a network that other machines may be on.
std::optional<std::string> own_number() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return std::nullopt;
  std::optional<std::string> found;
  for (ifaddrs const* one = all; one != nullptr && !found; one = one->ifa_next) {
    bool const is_on = (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
    if (!is_on || one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    auto const& number = reinterpret_cast<sockaddr_in const*>(one->ifa_addr)->sin_addr;
    if (::inet_ntop(AF_INET, &number, text.data(), text.size()) != nullptr) found = text.data();
  }
  ::freeifaddrs(all);
  return found;
}
}  // namespace

TEST_CASE("a run whose coordinator is on a network has its servers there", "[process][security]") {
  auto const here = own_number();
  if (!here) {
    WARN("not tested: this machine is on no network");
    return;
  }
  auto plan = small_run(both(token("open sesame"),
                             {{"RUBATO_BEYOND_LOOPBACK", "1"},
                              {"RUBATO_COORDINATOR", *here + ":" + std::to_string(test::free_port())}}));
  SECTION("and comes to the same") {
    test::process_run run(plan);
    check_result(run, open_result());
  }
  SECTION("and says so where one is lost") {
    plan.options.insert(plan.options.end(), {"--clocks", "100000", "--pause", "2000", "--tells", "yes"});
    plan.settings["RUBATO_RECONNECT"] = "1";
    test::process_run run(plan);
    REQUIRE(run.worker(0).prints("clock 0 3\n"));
    run.server(1).send(SIGKILL);
    check_error(run.worker(0), "server 1 (" + *here + ":");
  }
}

TEST_CASE("over TLS a run comes to the same", "[process][security]") {
  auto const [keys, unix_sockets] = GENERATE(Catch::Generators::table<test::variables, bool>(
      {{files().tls("member"), false}, {both(files().tls("member"), token("yes")), true}}));
  auto plan = small_run(keys);
  plan.unix_sockets = unix_sockets;
  test::process_run run(plan);
  check_result(run, open_result());
}

TEST_CASE("with proofs a run comes to the same where connections are cut and bytes come in pieces",
          "[process][security][proxy]") {
  SECTION("a token, byte by byte") { check_meddled(token("yes"), {.pieces = 1}); }
  SECTION("a token, cut") {
    check_meddled(token("yes"), {.pieces = 100, .cut_within = 10'000, .cuts_max = 12});
  }
  SECTION("TLS, a few bytes at a time") { check_meddled(files().tls("member"), {.pieces = 3}); }
  SECTION("TLS, cut") {
    check_meddled(files().tls("member"), {.pieces = 100, .cut_within = 20'000, .cuts_max = 12});
  }
}

// ---- those who cannot prove it

namespace {

/// One process of a run that has other keys than the rest, and what both sides are to say.
struct odd_one {
  test::variables of_rest;
  test::variables own;
  std::string says;
  std::string rest_says;
};

std::vector<odd_one> odd_tokens() {
  return {{token("one"), token("other"), "the token is wrong", "refused: the token is wrong"},
          {token("one"), {},
           "the listener has a token, and the process that connects has none",
           "the listener has a token, and the process that connects has none"},
          {{}, token("one"),
           "the process that connects has a token, and the listener has none",
           "the process that connects has a token, and the listener has none"}};
}
std::vector<odd_one> odd_encryption() {
  return {{files().tls("member"), {}, "TLS", "the peer does not speak TLS, this listener expects it"},
          {{}, files().tls("member"), "does not speak TLS; is it on at both ends?",
           "the peer speaks TLS, this listener does not"}};
}
std::vector<odd_one> odd_certificates() {
  auto const member = files().tls("member");
  return {{member, files().tls("expired"), "the peer refused our certificate: certificate expired",
           "certificate has expired"},
          {member, files().tls("foreign"), "the peer refused our certificate: unknown CA",
           "the peer's certificate is not accepted"},
          {member, files().tls("member", "stranger"), "the peer's certificate is not accepted",
           "the peer refused our certificate"}};
}

/// A run that does not begin, since this process has keys of its own.
test::vain_run odd_run(odd_one const& odd, std::string const& odd_role, std::uint32_t odd_rank,
                       std::string const& missing) {
  auto const plan = [=](std::string const& patience) {
    auto run = small_run({{"RUBATO_PATIENCE", patience}, {"RUBATO_RECONNECT", "1"}});
    std::string const less = std::to_string(0.8 * std::stod(patience));  // so that the others are there still
    run.own_settings = [=](std::string const& role, std::uint32_t rank) {
      if (role != odd_role || rank != odd_rank) return odd.of_rest;
      return both(odd.own, {{"RUBATO_PATIENCE", less}});
    };
    return run;
  };
  return {plan, {missing, "refused: "}};
}

constexpr char const* without_a_worker = "2 of 2 servers and 1 of 2 workers are here";

/// All end, and say that one worker is missing; it says why it is.
void check_without(test::process_run& run, odd_one const& odd) {
  INFO(run.errors());
  check_error(run.worker(1), odd.says);
  CHECK_THAT(run.worker(1).errors(), Contains("the coordinator"));
  std::string const missing = without_a_worker;
  check_error(run.coordinator(), missing);
  CHECK_THAT(run.coordinator().errors(), Contains("refused: ") && Contains(odd.rest_says));
  for (test::child* c : {&run.worker(0), &run.server(0), &run.server(1)}) check_error(*c, missing);
  for (std::size_t i = 0; i < workers; ++i) CHECK(run.worker(i).value("began").empty());
}

void check_all(std::vector<odd_one> const& all) {
  std::vector<test::vain_run> vain;
  for (odd_one const& odd : all) vain.push_back(odd_run(odd, "worker", 1, without_a_worker));
  auto const runs = test::ended_runs(vain);
  for (std::size_t i = 0; i < all.size(); ++i) {
    INFO(all[i].says);
    check_without(*runs[i], all[i]);
  }
}

}  // namespace

TEST_CASE("a worker with another token, or none, takes no part", "[process][security]") {
  check_all(odd_tokens());
}

TEST_CASE("a worker without TLS among others with it, or the other way round, takes no part",
          "[process][security]") {
  check_all(odd_encryption());
}

TEST_CASE("a worker whose certificate is not accepted takes no part", "[process][security]") {
  check_all(odd_certificates());
}

TEST_CASE("a server with another token takes no part", "[process][security]") {
  odd_one const odd{token("one"), token("other"), "the token is wrong", "refused: the token is wrong"};
  std::string const missing = "1 of 2 servers and 2 of 2 workers are here";
  auto const ended = test::ended_runs({odd_run(odd, "server", 1, missing)});
  test::process_run& run = *ended.front();
  INFO(run.errors());
  check_error(run.server(1), odd.says);
  check_error(run.coordinator(), missing);
  CHECK_THAT(run.coordinator().errors(), Contains(odd.rest_says));
  for (test::child* c : {&run.worker(0), &run.worker(1), &run.server(0)}) check_error(*c, missing);
}

// ---- those who come while a run is under way

namespace {

/// Why a connection with these keys came to nothing.
std::string refusal_at(net::address const& where, net::security const& keys,
                       net::role as = net::role::worker) {
  net::asio_network network;
  net::connection_options options;
  options.as = as;
  std::string reason;
  bool done = false;
  auto const attempt =
      network.dial(where, keys, options,
                   [&](std::unique_ptr<net::connection>, std::string const& why, bool) {
                     done = true;
                     reason = why;
                   });
  auto const end = net::network::clock::now() + test::patience;
  while (!done && net::network::clock::now() < end) network.run_one(end);
  return reason;
}

/// A run that is under way when somebody comes, and stays so until it may go on, however slow the machine is.
class held_run {
 public:
  explicit held_run(test::run_plan plan) : run_(held(std::move(plan))) { REQUIRE(run_.worker(0).prints("began")); }
  test::process_run& operator*() { return run_; }
  test::process_run* operator->() { return &run_; }
  [[nodiscard]] net::address at(std::string const& process) const {
    return {.host = {}, .path = (run_.folder() / process).string()};
  }

 private:
  static test::run_plan held(test::run_plan plan) {
    plan.unix_sockets = true;
    plan.held_at = 20;
    return plan;
  }

  test::process_run run_;
};

/// A run that is under way when somebody comes with these keys, as a worker process and straight to
/// a server: it comes to the same as without.
void check_intruder(odd_one const& odd, net::security const& keys) {
  auto plan = small_run({});
  test::process_run undisturbed(plan);
  plan.own_settings = [&](std::string const&, std::uint32_t rank) {
    if (rank < workers) return odd.of_rest;
    return both(odd.own, {{"RUBATO_PATIENCE", "2"}});
  };
  held_run run(plan);
  test::child& intruder = run->start_another();
  CHECK_THAT(refusal_at(run.at("server-1"), keys), Contains(odd.says));
  check_error(intruder, odd.says);
  run->let_go();
  CHECK(undisturbed.failures().empty());
  for (std::size_t i = 0; i < workers; ++i) {
    CHECK(run->worker(i).wait() == 0);
    CHECK(result_of(run->worker(i)) == result_of(undisturbed.worker(0)));
  }
  CHECK(run->failures() == "worker 2: 3\n");
  CHECK_THAT(run->server(1).errors(), Contains(odd.rest_says));
  CHECK_THAT(run->coordinator().errors(), Contains(odd.rest_says));
}

}  // namespace

TEST_CASE("whoever comes to a run with another token changes nothing", "[process][security]") {
  check_intruder({token("one"), token("other"), "the token is wrong", "refused: the token is wrong"},
                 {.token = "other", .tls = {}});
}

TEST_CASE("whoever comes to an encrypted run without a certificate changes nothing",
          "[process][security]") {
  check_intruder({files().tls("member"), {}, "TLS", "the peer does not speak TLS"}, {});
}

// ---- those who know the token, and say that they are somebody else

namespace {

/// A session of a process that the coordinator knows nothing of: it says that it is worker process 1, and commits as
/// its worker at every clock.
class impostor final : public net::link_user {
 public:
  impostor(net::address const& server, std::uint32_t incarnation) : link_(network_, *this, limits(), "the server") {
    link_.dial(server, {.token = "open sesame"}, {.number = 1, .incarnation = incarnation, .session = 4711}, 400ms);
    for (std::int64_t clock = 0; clock < 400; ++clock) {
      commit_message m{{worker_id{1}, incarnation_id{0}, stage_id{1}}, clock_index{clock}, version_index{clock}, {}};
      m.parts.resize(4);
      link_.send(std::make_shared<detail::commit_frame const>(std::move(m)));
    }
  }
  /// Why it was not let in; empty if it was.
  std::string tries() {
    auto const end = net::network::clock::now() + test::patience;
    while (!is_in_ && lost_for_.empty() && net::network::clock::now() < end) network_.run_one(end);
    for (int i = 0; is_in_ && i < 100; ++i) network_.run_one(net::network::clock::now() + 1ms);
    return lost_for_;
  }

  void begin(net::link&, wire::frame_header const& header, std::span<std::byte const>,
             std::vector<std::span<std::byte>>& body) override {
    arriving_.resize(static_cast<std::size_t>(header.length));
    body.emplace_back(arriving_);
  }
  void end(net::link&, wire::frame_header const&) override {}
  void resumed(net::link&) override { is_in_ = true; }
  void lost(net::link&, std::string const& reason, bool) override { lost_for_ = reason; }

 private:
  static net::link::options limits() {
    net::link::options o;
    o.handshake = 400ms;
    return o;
  }

  net::asio_network network_;
  std::vector<std::byte> arriving_;
  bool is_in_ = false;
  std::string lost_for_;
  net::link link_;
};

/// Why a server does not let an impostor in. Asked again where the machine was too slow for the server to say anything.
std::string answer_to_impostor(net::address const& server, std::uint32_t incarnation) {
  auto const end = net::network::clock::now() + test::patience;
  std::string answer;
  auto const is_late = [&] {
    auto const says = [&](char const* what) { return answer.find(what) != std::string::npos; };
    // Of a life that may yet come nothing is said: that is what the last one is.
    return says("nobody answered in time") || (incarnation == 0 && (says("welcome in time") || says("took too long")));
  };
  do answer = impostor(server, incarnation).tries();
  while (is_late() && net::network::clock::now() < end);
  return answer;
}

}  // namespace

TEST_CASE("whoever knows the token, but is not enrolled, commits as nobody", "[process][security]") {
  auto const plan = small_run(token("open sesame"));
  test::process_run undisturbed(plan);
  held_run run(plan);
  for (std::uint32_t s = 0; s < servers; ++s) {
    auto const shard = run.at("server-" + std::to_string(s));
    CHECK_THAT(answer_to_impostor(shard, 0), Contains("not the worker process 1 that the coordinator has enrolled"));
    CHECK_THAT(answer_to_impostor(shard, 1), Contains("welcome in time") || Contains("closed by the peer"));
  }
  run->let_go();
  CHECK(undisturbed.failures().empty());
  check_result(*run, result_of(undisturbed.worker(0)));
}

namespace {

/// Waits for what a process is to have written to its log.
bool comes_to_say(test::child const& c, std::string const& sentence) {
  auto const end = std::chrono::steady_clock::now() + test::patience;
  while (c.errors().find(sentence) == std::string::npos) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

/// Says a hello that is not of the role in its handshake, which is a worker's.
class turncoat final : public net::link_user {
 public:
  turncoat(net::address const& coordinator, net::role claimed) : link_(network_, *this, {}, "the coordinator") {
    link_.dial(coordinator, {.token = "open sesame"}, {.as = claimed, .session = 4711}, 5s);
  }
  /// Why it was not let in; empty if it was.
  std::string tries() {
    auto const end = net::network::clock::now() + test::patience;
    while (!link_.is_up() && lost_for_.empty() && net::network::clock::now() < end)
      network_.run_one(net::network::clock::now() + 10ms);
    return lost_for_;
  }

 private:
  void begin(net::link&, wire::frame_header const&, std::span<std::byte const>,
             std::vector<std::span<std::byte>>&) override {}
  void end(net::link&, wire::frame_header const&) override {}
  void lost(net::link&, std::string const& reason, bool) override { lost_for_ = reason; }

  net::asio_network network_;
  std::string lost_for_;
  net::link link_;
};

}  // namespace

TEST_CASE("whoever knows the token is of one role, at the coordinator as in the handshake", "[process][security]") {
  auto const plan = small_run(token("open sesame"));
  test::process_run undisturbed(plan);
  held_run run(plan);
  for (auto const claimed : {net::role::server, net::role::coordinator}) {
    std::string const why = "a process that said in its handshake that it is a worker now says that it is a " +
                            std::string(to_string(claimed));
    CHECK_THAT(turncoat(run.at("coordinator"), claimed).tries(), Contains(why));
    CHECK(comes_to_say(run->coordinator(), "refused: " + why));
  }
  run->let_go();
  CHECK(undisturbed.failures().empty());
  check_result(*run, result_of(undisturbed.worker(0)));
}

TEST_CASE("over TLS a certificate is for one place in the run, and whoever poses as another changes nothing",
          "[process][security]") {
  auto plan = small_run({});
  test::process_run undisturbed(plan);
  bool another = false;
  plan.own_settings = [&](std::string const& role, std::uint32_t rank) {
    if (another) return files().tls("worker-1");
    return files().tls(role == "coordinator" ? role : role + "-" + std::to_string(rank));
  };
  held_run run(plan);
  another = true;
  test::child& posing = run->start_another(0);
  std::string const as_worker = "the certificate of this worker is for worker 1 only, and not for worker 0";
  check_error(posing, as_worker);
  CHECK(comes_to_say(run->coordinator(), as_worker));
  std::string const as_server = "the certificate of this server is for worker 1 only";
  CHECK_THAT(refusal_at(run.at("coordinator"), files().keys("worker-1"), net::role::server), Contains(as_server));
  CHECK(comes_to_say(run->coordinator(), as_server));
  run->let_go();
  CHECK(undisturbed.failures().empty());
  for (std::size_t i = 0; i < workers; ++i) {
    CHECK(run->worker(i).wait() == 0);
    CHECK(result_of(run->worker(i)) == result_of(undisturbed.worker(0)));
  }
  CHECK(run->failures() == "worker 2: 3\n");
}
