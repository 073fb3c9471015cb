// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "rubato/server/blueprint.hpp"
#include "rubato/transport/processes/coordinator_process.hpp"
#include "rubato/transport/processes/server_process.hpp"
#include "rubato/transport/tcp.hpp"

namespace rubato::detail {

/// A server, or the coordinator, for workers in other processes. See `tcp`.
class serving_process final : public tcp_runtime {
 public:
  serving_process(tcp const& options, run_setup setup);

  run_report run(run_request request) override;
  [[nodiscard]] bool has_workers() const noexcept override { return false; }
  std::uint32_t add_worker() override;
  void stop() override;
  [[nodiscard]] time_point now() const override { return {}; }
  [[nodiscard]] std::uint32_t workers() const noexcept override { return place_.workers; }
  void read_whole(std::size_t table, std::byte* out) const override;
  void read_touched(std::size_t table, std::vector<std::uint64_t>& keys, raw_array& values) const override;
  [[nodiscard]] std::uint64_t updates() const override;
  [[nodiscard]] server_group const& servers() const override;
  [[nodiscard]] net::role role() const noexcept override { return place_.as; }
  [[nodiscard]] std::uint32_t rank() const noexcept override { return place_.rank.value_or(0); }
  [[nodiscard]] net::address bound() const override;
  void cut(server_id s) override;
  /// Whether it has its place: the coordinator always, a server once it has been let in.
  [[nodiscard]] bool is_in() const noexcept;
  /// The server that this process is; none: it is the coordinator.
  [[nodiscard]] server_process const* server() const noexcept { return server_.get(); }

 private:
  net::deployment place_;
  blueprint plan_;
  std::unique_ptr<server_process> server_;
  std::unique_ptr<coordinator_process> coordinator_;
};

/// Tables of a cluster over processes: a commit says of each what it has of it, and frames have room for so many.
[[nodiscard]] std::size_t tables_max();

/// What `tcp::open` makes, without a check of what there are no sockets for.
[[nodiscard]] std::unique_ptr<tcp_runtime> open_process(tcp const& options, run_setup setup);

}  // namespace rubato::detail
