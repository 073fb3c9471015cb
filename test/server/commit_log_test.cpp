// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/server/commit_log.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "at.hpp"

using namespace rubato;
using test::at;

namespace {

void add(commit_log& log, std::int64_t stamp, std::uint32_t worker) {
  commit_message message{.from = {worker_id{worker}, {}, {}}, .stamp = at(stamp)};
  log.add({{.from = worker_id{worker}, .stamp = at(stamp), .c_min = {}, .c_max = {}, .workers = 1},
           std::move(message)});
}

std::string text(clock_index stamp, worker_id worker) {
  return std::to_string(stamp.value()) + "/" + std::to_string(worker.value());
}

/// As "stamp/worker", in order.
std::vector<std::string> texts(commit_log::groups const& groups) {
  std::vector<std::string> out;
  for (auto const& [stamp, group] : groups)
    for (auto const& [worker, commit] : group) {
      out.push_back(text(stamp, worker));
      CHECK(text(commit.info.stamp, commit.info.from) == out.back());
      CHECK(text(commit.message.stamp, commit.message.from.worker) == out.back());
    }
  return out;
}

/// What comes out below the horizon.
std::vector<std::string> taken(commit_log& log, std::int64_t horizon) {
  return texts(log.take_below(at(horizon)));
}

using list = std::vector<std::string>;

}  // namespace

TEST_CASE("commit_log: gives commits in the order (stamp, worker), however they came") {
  commit_log log;
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
  commit_log log;
  add(log, 3, 0);
  add(log, 4, 0);
  CHECK(taken(log, 3).empty());
  CHECK(taken(log, 4) == list{"3/0"});
  CHECK(taken(log, 4).empty());
  CHECK(log.size() == 1);
}

TEST_CASE("commit_log: drops a worker's commits from the cut on, and nobody else's (rules §1)") {
  commit_log log;
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
  commit_log log;
  add(log, 5, 3);
  CHECK(log.drop(worker_id{3}, at(0)) == 1);
  CHECK(log.empty());
  CHECK(log.size() == 0);
  CHECK(log.take_below(at(100)).empty());
}

TEST_CASE("commit_log: takes out the commits that it is told to, in order, and shows the others") {
  commit_log log;
  for (auto const& [stamp, worker] : {std::pair{1, 2U}, {0, 1U}, {2, 0U}, {1, 0U}, {0, 2U}})
    add(log, stamp, worker);
  auto const odd = [](clock_index stamp, worker_id w) { return (stamp.value() + w.value()) % 2 != 0; };
  CHECK(texts(log.take_if(odd)) == list{"0/1", "1/0", "1/2"});
  CHECK(log.size() == 2);
  list left;
  log.for_each([&](held_commit const& c) { left.push_back(text(c.info.stamp, c.info.from)); });
  CHECK(left == list{"0/2", "2/0"});
  CHECK(texts(log.take_if(odd)).empty());
  CHECK(taken(log, 9) == list{"0/2", "2/0"});
}
