// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/result/run_result.hpp"
#include "bench/train/training.hpp"
#include "rubato/core/time.hpp"
#include "rubato/peer/concepts.hpp"
#include "rubato/protocol/revise.hpp"

namespace rubato::bench {

/// What protocols without a server can be told.
struct peer_parameters {
  std::string graph = "ring-based";       ///< see `parse_graph`
  std::optional<std::int64_t> gap_max{};  ///< max_ig; 8 unless set. If set, hop has tokens, too
  std::int64_t backups = 1;               ///< hop_backup, hop_skip, hop_hybrid
  std::int64_t staleness = 5;             ///< hop_stale, hop_hybrid
  bool plainly = false;                   ///< hop_stale: updates count alike, whatever their age
  std::int64_t jump_trigger = 2;          ///< hop_skip
  std::int64_t jump_max = 10;             ///< hop_skip
  std::int64_t delay = 0;                 ///< push_sum: iterations after which an update counts
  std::int64_t group = 3;                 ///< prague: the most members of a group
  iteration_order order = iteration_order::parallel;  ///< of all of Hop
};

/// What an update counts where it is not the protocol's own rule: `ssp+average`, `con_sgd+0.1`.
struct named_merge {
  enum class kind { sum, average, scale };
  kind how = kind::sum;
  double weight = 1;  ///< λ of scale
};

/// What protocols can be told. Each takes what concerns it.
struct protocol_parameters {
  std::int64_t staleness = 3;
  std::optional<double> global_rate{};  ///< con_sgd, adsp: λ_g; 1/M unless set
  std::optional<named_merge> merge{};   ///< bsp, ssp, asp, con_sgd
  bool partition_sync = false;          ///< dyn_sgd: a pull sees the same commits on all servers
  versions kept = versions::exact;      ///< dyn_sgd

  /// τ of fixed_ada_comm and easgd, τ_0 of ada_comm, E, H of fed_adam, diloco, …: local steps per commit; twice the
  /// job's, unless set.
  std::optional<std::int64_t> local_steps{};
  /// K of k_sync, k_async and fed_buff, m of fed_avg: updates of a round; three quarters of the workers unless set, and
  /// half of them for fed_avg and fed_buff.
  std::optional<std::int64_t> round_size{};
  std::optional<std::int64_t> sample{};  ///< β of psp: a tenth of the workers unless set, at least one
  /// Γ of adsp: the time that the slowest worker takes for `local_steps` and one exchange, unless
  /// set. ada_comm looks at τ every fifth.
  std::optional<duration> check_period{};
  std::optional<duration> epoch{};            ///< adsp: 20 check periods unless set
  std::optional<duration> probe_period{};     ///< adsp: 2 check periods unless set
  std::optional<std::int64_t> commit_rate{};  ///< adsp: R throughout, without a search
  std::optional<double> global_momentum{};    ///< bsp, fixed_ada_comm, adsp: of the servers' steps
  bool batch_tune = false;                    ///< bsp, fixed_ada_comm: see `training::batch_tune`

  peer_parameters peers{};
};

/// What may stand behind a protocol's name and a colon.
enum class protocol_number {
  none,
  staleness,
  local_steps,
  commit_rate,
  backups,
  peer_staleness,
  jump_max,
  round_size,
  sample,
  delay,
  group
};

/// Protocols that are alike, as README's table has them: who holds the parameters, and what servers go by.
enum class protocol_family {
  clocks,      ///< servers, which go by the workers' clocks
  optimizers,  ///< servers that move the parameters element by element, or in a step of their own
  waits,       ///< servers, with others to wait for than those that are so many clocks behind
  rounds,      ///< servers that fold when enough updates are there, or by their age
  parts,       ///< servers, to which workers send a part of what there is
  hop,         ///< peers, by the rules of Hop
  peers,       ///< peers, by other rules
};
/// As tables have it.
[[nodiscard]] std::string_view name_of(protocol_family f) noexcept;

/// A protocol that can be compared.
struct protocol_entry {
  std::string_view name;
  protocol_number number;
  run_result (*run)(training const& job, protocol_parameters const& with);
  bool keeps_versions = false;
  bool adds_up = false;  ///< commits as they are, which is what applications need
  bool tunes_batches = false;
  bool takes_merge = false;  ///< may be told what an update counts
  protocol_family family = protocol_family::clocks;
  bool needs_backups = false;  ///< does not wait for `peer_parameters::backups` of the updates
  bool needs_sides = false;    ///< runs on bipartite graphs only
  bool bears_loss = true;      ///< goes on without a worker that is lost
};

/// All of them, in the order in which "all" runs them. A new one is a line in protocols.cpp and a run
/// function.
[[nodiscard]] std::span<protocol_entry const> known_protocols();

/// A protocol with its parameters.
struct protocol_choice {
  protocol_entry const* entry = nullptr;
  protocol_parameters with{};
  bool by_name = true;  ///< not as one of "all"

  [[nodiscard]] bool has_servers() const noexcept {
    return entry->family != protocol_family::hop && entry->family != protocol_family::peers;
  }
  [[nodiscard]] run_result run(training const& job) const;
  /// "ssp(3)", "ssp(3)+average", "dyn_sgd(3)+sync", "fixed_ada_comm(20)", "adsp", "hop_skip(10)+serial"
  [[nodiscard]] std::string label() const;
};

/// Reads "bsp", "ssp:10", "ssp+average:10", "con_sgd+0.1", "adsp:2", "hop_skip:2" or "all"; `parameters` hold where a
/// name says nothing else.
/// @throws option_error that lists the known protocols
[[nodiscard]] std::vector<protocol_choice> parse_protocols(std::span<std::string const> names,
                                                           protocol_parameters const& parameters);

// In server_protocols.cpp.
[[nodiscard]] run_result run_bsp(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_ssp(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_asp(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_con_sgd(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_dyn_sgd(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_fixed_ada_comm(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_ada_comm(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_adsp(training const& job, protocol_parameters const& with);
// In optimizer_protocols.cpp.
[[nodiscard]] run_result run_fed_adam(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_slow_mo(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_diloco(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_async_diloco(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_dc_asgd(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_easgd(training const& job, protocol_parameters const& with);
// In round_protocols.cpp.
[[nodiscard]] run_result run_k_sync(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_k_async(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_fed_avg(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_fed_buff(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_staleness_aware(training const& job, protocol_parameters const& with);
// In admission_protocols.cpp.
[[nodiscard]] run_result run_essp(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_dssp(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_psp(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_vap(training const& job, protocol_parameters const& with);
// In filter_protocols.cpp.
[[nodiscard]] run_result run_gaia(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_streaming_diloco(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_lag(training const& job, protocol_parameters const& with);
// In peer_protocols.cpp.
[[nodiscard]] run_result run_hop(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_hop_backup(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_hop_stale(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_hop_hybrid(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_hop_skip(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_notify_ack(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_ad_psgd(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_all_reduce(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_push_sum(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_gossip(training const& job, protocol_parameters const& with);
[[nodiscard]] run_result run_prague(training const& job, protocol_parameters const& with);

}  // namespace rubato::bench
