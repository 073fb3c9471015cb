// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rubato/core/ids.hpp"
#include "rubato/core/random.hpp"
#include "rubato/core/time.hpp"
#include "rubato/run/single_machine.hpp"
#include "rubato/server/blueprint.hpp"
#include "rubato/server/messages.hpp"
#include "rubato/server/read_slot.hpp"
#include "rubato/server/server_group.hpp"
#include "rubato/sim/network.hpp"

namespace rubato::detail {

/// What it takes, in virtual time, that a stage has the tables on its own machine. The rows themselves stay where they
/// are, since nobody else uses them meanwhile: this knows which of them are supposed to be on the machine, and sends as
/// many bytes as they take. An update of rows that are not there waits for none; the next read does.
/// Source: 004 §5.3.
class local_tables {
 public:
  local_tables(blueprint const& plan, single_machine const& how, std::uint32_t machine, std::uint64_t seed);

  [[nodiscard]] std::uint32_t machine() const noexcept { return machine_; }
  /// A stage begins at this time, perhaps with what another one has left. @param between what is between the
  /// machine and the servers; until the stage ends. Returns when all is there that has to be before its first read.
  time_point begin(single_machine const& how, server_group const& servers, sim::network& between, time_point now);
  /// What is here goes to another machine, where the workers are now. @param from what stands for this one
  /// Returns when it is there.
  time_point move_to(std::uint32_t machine, sim::station from, server_group const& servers, sim::network& between,
                     time_point now);
  /// A read asks a server for this. Returns when all of it is there, at the earliest now.
  time_point bring(server_id s, std::size_t table, read_slot const& asked, time_point now);
  /// A server has a commit.
  void note(server_id s, commit_message const& m);
  /// Returns when what has been changed is with the servers.
  time_point give_back(server_group const& servers, sim::network& between, time_point now);

 private:
  struct chunk {
    time_point arrives = time_point::max();
    bool changed = false;
  };
  /// A server's part of a table.
  struct part {
    std::uint64_t rows = 0;
    std::uint64_t chunk_rows = 1;
    std::size_t row_bytes = 0;
    std::vector<chunk> chunks;  ///< of a bounded table
    bool changed = false;       ///< of another

    [[nodiscard]] std::size_t bytes_of(std::size_t chunk) const noexcept;
  };

  [[nodiscard]] part& part_of(server_id s, std::size_t table) noexcept {
    return parts_[table * plan_.servers() + s.index()];
  }
  time_point bring_all(server_id s, part& p, time_point now);
  time_point bring(server_id s, std::uint64_t bytes, std::uint64_t asking, time_point now);
  [[nodiscard]] std::uint64_t touched_bytes(server_group const& servers, server_id s, std::size_t table) const;
  time_point send(sim::station from, sim::station to, std::uint64_t bytes, time_point now);

  blueprint const& plan_;
  preparation prepare_ = preparation::on_demand;
  std::uint32_t machine_;
  random_stream draws_;
  sim::network* between_ = nullptr;
  std::vector<part> parts_;  ///< by table, then server
  bool begun_ = false;       ///< a stage, with these
};

}  // namespace rubato::detail
