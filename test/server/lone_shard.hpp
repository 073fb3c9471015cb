// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <optional>
#include <rubato/server/blueprint.hpp>
#include <rubato/server/shard.hpp>
#include <utility>
#include <vector>

namespace rubato::test {

/// The only shard of a run with one table, in its first stage, without any transport.
struct lone_shard {
  template <table_spec Table>
  lone_shard(rules protocol, Table const& table)
      : plan(std::move(protocol), 1, {describe(table)}), server(plan, server_id{0}, threading::single) {
    server.begin_stage(stage_id{1});
  }

  /// `released` says who may go on because of it.
  std::optional<membership_report> order(membership_order::kind what, std::uint32_t w, std::int64_t c) {
    released.clear();
    return server.order(
        {what, worker_id{w}, {}, clock_index{c}, epoch_id{++epoch}, stage_id{1}, {}}, released);
  }
  refusal commit(std::uint32_t w, std::int64_t stamp, version_index version, update part) {
    released.clear();
    commit_message m{.from = {worker_id{w}, {}, stage_id{1}},
                     .stamp = clock_index{stamp},
                     .version = version,
                     .parts = {shared_update(std::move(part))}};
    return server.commit(std::move(m), released);
  }
  std::pair<refusal, bool> admit(read_header const& header) { return server.admit(0, header, slot, released); }

  blueprint plan;
  shard server;
  read_slot slot;
  std::vector<worker_id> released;
  std::uint64_t epoch = 0;
};

}  // namespace rubato::test
