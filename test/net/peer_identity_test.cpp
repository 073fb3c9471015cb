// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// What certificates say of a run, and what a process that shows one may say of itself.
#include <rubato/net/peer_identity.hpp>

#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include <rubato/core/error.hpp>

using namespace rubato;
using net::certified_place;
using net::certified_places;
using net::peer_identity;
using wire::role;

namespace {

using uri_list = std::vector<std::string>;

std::vector<certified_place> places_of(uri_list const& uris) { return certified_places(uris); }

}  // namespace

TEST_CASE("certified_places: what a certificate's URIs say of a run", "[net]") {
  CHECK(places_of({}).empty());
  CHECK(places_of({"https://rubato.test", "rubat", "rubato", "", "spiffe://rubato:worker"}).empty());
  CHECK(places_of({"rubato:worker", "https://x.test", "rubato:worker/3", "rubato:server/0", "rubato:server",
                   "rubato:coordinator"}) ==
        std::vector<certified_place>{{role::worker, {}}, {role::worker, 3}, {role::server, 0}, {role::server, {}},
                                     {role::coordinator, {}}});
  CHECK(places_of({"RUBATO:worker"}) == std::vector<certified_place>{{role::worker, {}}});  // RFC 3986: the same scheme
  CHECK(places_of({"rubato:worker/4294967295"}) == std::vector<certified_place>{{role::worker, 4294967295U}});
}

TEST_CASE("certified_places: what begins as one and is none is no certificate for everything", "[net]") {
  std::string const wrong =
      GENERATE("rubato:", "rubato:wroker", "rubato:Worker", "rubato:worker/", "rubato:worker/x", "rubato:worker/-1",
               "rubato:worker/+1", "rubato:worker/1/2", "rubato:worker/4294967296", "rubato:worker ", "Rubato:master",
               "rubato:coordinator/0");
  CHECK_THROWS_AS(places_of({"rubato:server", wrong}), option_error);
  CHECK_THROWS_AS(places_of({std::string("rubato:worker\0", 14)}), option_error);
  CHECK_THROWS_WITH(places_of({"rubato:wroker"}), "the certificate is for 'rubato:wroker', expected rubato:worker, "
                                                  "rubato:worker/NUMBER, rubato:server, rubato:server/NUMBER or "
                                                  "rubato:coordinator");
}

TEST_CASE("peer_identity: who has shown nothing may be anything, who has shown a role is of that role", "[net]") {
  peer_identity const nobody;
  peer_identity const worker(role::worker);
  for (role const r : {role::worker, role::server, role::coordinator}) {
    CHECK_FALSE(nobody.objection(r));
    CHECK_FALSE(nobody.objection(r, 7));
    CHECK_FALSE(nobody.objection_to_any_number(r));
    CHECK(worker.objection(r).has_value() == (r != role::worker));
    CHECK(worker.objection(r, 7).has_value() == (r != role::worker));
    CHECK(worker.objection_to_any_number(r).has_value() == (r != role::worker));
  }
}

TEST_CASE("peer_identity: a certificate that speaks of a run is for that and nothing else", "[net]") {
  peer_identity const first(role::worker, {{role::worker, 1}, {role::server, {}}});
  CHECK_FALSE(first.objection(role::worker));
  CHECK_FALSE(first.objection(role::worker, 1));
  CHECK(first.objection(role::worker, 0) ==
        "the certificate of this worker is for worker 1 and a server only, and not for worker 0");
  CHECK(first.objection_to_any_number(role::worker) ==
        "the certificate of this worker is for worker 1 and a server only, so it must ask for its number (RANK)");
  peer_identity const server(role::server, {{role::worker, 1}, {role::server, {}}});
  CHECK_FALSE(server.objection(role::server, 5));
  CHECK_FALSE(server.objection_to_any_number(role::server));
  peer_identity const posing(role::server, {{role::worker, {}}});
  CHECK(posing.objection(role::server) == "the certificate of this server is for a worker only");
  CHECK(posing.objection(role::server, 0) == posing.objection(role::server));
  CHECK(posing.objection_to_any_number(role::server) == posing.objection(role::server));
  // An error of another kind comes first.
  CHECK(posing.objection(role::worker) ==
        "a process that said in its handshake that it is a server now says that it is a worker");
  std::vector<certified_place> const many(1000, {role::worker, 4000000000U});
  CHECK(peer_identity(role::server, many).objection(role::server)->ends_with("and 996 more only"));
}
