// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/server/commit_log.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <string>
#include <vector>

using namespace rubato;

namespace {

constexpr clock_index at(std::int64_t value) { return clock_index{value}; }

using log_type = commit_log<std::string>;

void add(log_type& log, std::int64_t stamp, std::uint32_t worker) {
  log.add(at(stamp), worker_id{worker}, std::to_string(stamp) + "/" + std::to_string(worker));
}

/// What comes out below the horizon, as "stamp/worker" in order.
std::vector<std::string> taken(log_type& log, std::int64_t horizon) {
  std::vector<std::string> out;
  for (auto const& [stamp, group] : log.take_below(at(horizon)))
    for (auto const& [worker, text] : group) {
      CHECK(text == std::to_string(stamp.value()) + "/" + std::to_string(worker.value()));
      out.push_back(text);
    }
  return out;
}

using list = std::vector<std::string>;

}  // namespace

TEST_CASE("commit_log: gives commits in the order (stamp, worker), however they came") {
  log_type log;
  for (auto const& [stamp, worker] :
       {std::pair{1, 2U}, {0, 1U}, {2, 0U}, {1, 0U}, {0, 10U}, {0, 2U}, {1, 1U}})
    add(log, stamp, worker);
  CHECK(log.size() == 7);
  CHECK(taken(log, 2) == list{"0/1", "0/2", "0/10", "1/0", "1/1", "1/2"});
  CHECK(log.size() == 1);
  CHECK(taken(log, 3) == list{"2/0"});
  CHECK(log.empty());
}

TEST_CASE("commit_log: keeps what is at the horizon or beyond") {
  log_type log;
  add(log, 3, 0);
  add(log, 4, 0);
  CHECK(taken(log, 3).empty());
  CHECK(taken(log, 4) == list{"3/0"});
  CHECK(taken(log, 4).empty());
  CHECK(log.size() == 1);
}

TEST_CASE("commit_log: drops a worker's commits from the cut on, and nobody else's (rules §1)") {
  log_type log;
  for (std::int64_t stamp = 0; stamp < 4; ++stamp) add(log, stamp, 1);
  add(log, 2, 0);
  add(log, 3, 2);
  CHECK(log.drop(worker_id{1}, at(2)) == 2);
  CHECK(log.size() == 4);
  CHECK(log.drop(worker_id{1}, at(2)) == 0);
  CHECK(log.drop(worker_id{9}, at(0)) == 0);
  CHECK(taken(log, 10) == list{"0/1", "1/1", "2/0", "3/2"});
  CHECK(log.empty());
}

TEST_CASE("commit_log: is empty once a drop took the last commit") {
  log_type log;
  add(log, 5, 3);
  CHECK(log.drop(worker_id{3}, at(0)) == 1);
  CHECK(log.empty());
  CHECK(log.size() == 0);
  CHECK(log.take_below(at(100)).empty());
}
