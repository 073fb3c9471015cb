// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "bench/train/row_order.hpp"

namespace rubato::bench {

/// What a reproduction may be told.
struct reproduce_options {
  std::string data_dir{};  ///< of the real data sets; empty: RUBATO_DATA, else ../shared/data
  std::optional<std::int64_t> clocks{};  ///< of each worker; else as many as the figure needs
  std::uint64_t seed = 1;
  row_order shards{};  ///< of the rows, where workers have shards

  /// The path of a real data set, or nothing where it is not there.
  [[nodiscard]] std::optional<std::string> data_file(std::string const& name) const;
};

/// A figure or table that can be rerun: of a paper, or of our own.
struct reproduction {
  std::string_view name;
  std::string_view title;
  void (*run)(reproduce_options const& options);

  /// Whether it looks at `reproduce_options::shards`.
  [[nodiscard]] bool takes_shards() const noexcept { return name.starts_with("sigmod17") || name.starts_with("hop"); }
};

/// All of them. A new one is a line in registry.cpp and a source file.
[[nodiscard]] std::span<reproduction const> reproductions();

/// ConSGD paper, Table 3: end-to-end comparison.
void reproduce_sigmod17_table3(reproduce_options const& options);
/// The same: what has to hold for the updates of ASP and SSP to grow with the heterogeneity.
void reproduce_sigmod17_heterogeneity(reproduce_options const& options);
/// The same, Figure 2: BSP, ASP and SSP as the heterogeneity grows.
void reproduce_sigmod17_figure2(reproduce_options const& options);
/// The same, Figure 6: each worker's time for a clock in a production cluster.
void reproduce_sigmod17_figure6(reproduce_options const& options);
/// The same, Figure 7: the protocols and FlexRR there.
void reproduce_sigmod17_figure7(reproduce_options const& options);
/// The same, Table 4: the global learning rate of ConSGD.
void reproduce_sigmod17_table4(reproduce_options const& options);
/// The same, Figure 9: the best convergence curves, with fixed and decayed rates.
void reproduce_sigmod17_figure9(reproduce_options const& options);
/// The same, Figure 10: the impact of the learning rate.
void reproduce_sigmod17_figure10(reproduce_options const& options);
/// The same, Figure 11: the impact of staleness.
void reproduce_sigmod17_figure11(reproduce_options const& options);
/// The same, Figure 12: the impact of the number of workers.
void reproduce_sigmod17_figure12(reproduce_options const& options);
/// The same, Figure 13: what versions take on the servers, by staleness.
void reproduce_sigmod17_figure13(reproduce_options const& options);
/// The same: what servers and workers compute, as processes.
void reproduce_sigmod17_figure13_cpu(reproduce_options const& options);
/// The same, Figure 16: the effect of partition synchronization.
void reproduce_sigmod17_figure16(reproduce_options const& options);

/// ADSP paper, Figure 1: where time goes with speeds 1:1:3.
void reproduce_adsp_figure1(reproduce_options const& options);
/// The same, Figure 3: the commit rate, convergence time and momentum, implicit or not.
void reproduce_adsp_figure3(reproduce_options const& options);
/// The same, Figure 4: time and steps to convergence on EC2 instances.
void reproduce_adsp_figure4(reproduce_options const& options);
/// The same, Figure 5: heterogeneity, and 36 workers.
void reproduce_adsp_figure5(reproduce_options const& options);
/// The same, Figure 6: extra delays.
void reproduce_adsp_figure6(reproduce_options const& options);
/// The same, Figure 8: ADSP+, an offline search of each worker's local steps.
void reproduce_adsp_figure8(reproduce_options const& options);
/// The same, Figure 9: BatchTune.
void reproduce_adsp_figure9(reproduce_options const& options);
/// The same, Figure 10: bandwidth, and ADSP++, a blocking search of rate and momentum.
void reproduce_adsp_figure10(reproduce_options const& options);
/// The same, Figure 11: at the times of a large model.
void reproduce_adsp_figure11(reproduce_options const& options);
/// The same, Figure 13: regression on chillers.
void reproduce_adsp_figure13(reproduce_options const& options);
/// The same, what the online search finds beside the best of all fixed rates.
void reproduce_adsp_search(reproduce_options const& options);

/// Hop paper, Figure 12: three graphs with and without random slowdown.
void reproduce_hop_figure12(reproduce_options const& options);
/// The same, Figure 13: peers beside a parameter server.
void reproduce_hop_figure13(reproduce_options const& options);
/// The same, Figure 14: a backup worker, loss over time.
void reproduce_hop_figure14(reproduce_options const& options);
/// The same, Figure 15: a backup worker, loss over steps.
void reproduce_hop_figure15(reproduce_options const& options);
/// The same, Figure 16: a backup worker, speed of iterations.
void reproduce_hop_figure16(reproduce_options const& options);
/// The same, Figure 17: staleness.
void reproduce_hop_figure17(reproduce_options const& options);
/// The same, Figure 18: a straggler that leaves iterations out, duration of an iteration.
void reproduce_hop_figure18(reproduce_options const& options);
/// The same, Figure 19: a straggler that leaves iterations out, loss over time.
void reproduce_hop_figure19(reproduce_options const& options);
/// The same, Figure 20: three graphs of 8 workers unevenly on 3 machines.
void reproduce_hop_figure20(reproduce_options const& options);
/// The same, Figure 21: the spectral gaps of these graphs.
void reproduce_hop_figure21(reproduce_options const& options);
/// The same, Equation 2: updates weighted by their age beside a plain average.
void reproduce_hop_equation2(reproduce_options const& options);

/// Stochastic gradient push beside all-reduce, on 4 to 32 nodes.
void reproduce_push_sum(reproduce_options const& options);
/// Prague's static groups beside all-reduce and AD-PSGD, with and without a straggler.
void reproduce_prague(reproduce_options const& options);
/// GoSGD, by how often a worker sends.
void reproduce_gossip(reproduce_options const& options);

/// K-sync and K-async, with and without waiting: the time of a version beside its closed forms, and the error's.
void reproduce_k_sync(reproduce_options const& options);
/// Synchronous SGD with backup workers: how many of a hundred workers.
void reproduce_backup_workers(reproduce_options const& options);
/// FedAvg: rounds to a target by how much clients do in each, with rows at random and by label.
void reproduce_fed_avg(reproduce_options const& options);
/// FedBuff beside synchronous rounds where clients take long at times.
void reproduce_fed_buff(reproduce_options const& options);
/// Rates divided by staleness, with 30 learners.
void reproduce_staleness_aware(reproduce_options const& options);

/// FlexPS paper, Figure 1: what an iteration takes by degree, for small and large batches.
void reproduce_flexps_figure1(reproduce_options const& options);
/// The same, Figure 5 and Table 2: degrees found while a stage runs.
void reproduce_flexps_figure5(reproduce_options const& options);
/// The same, Figure 6 and Table 3: SVRG, degrees by stage beside one for all.
void reproduce_flexps_figure6(reproduce_options const& options);
/// The same, Figure 7 and Table 4: SGD in three phases.
void reproduce_flexps_figure7(reproduce_options const& options);
/// The same, Figure 10: single-machine mode beside servers.
void reproduce_flexps_figure10(reproduce_options const& options);
/// The same, Figure 11: many stages beside one.
void reproduce_flexps_figure11(reproduce_options const& options);

/// SSP paper, Theorem 1, and theorems 1 and 2 of the ConSGD paper: measured regret beside its bounds.
void reproduce_ssp_theorem1(reproduce_options const& options);
/// SSP paper, Figure 3: convergence, where time goes, and quantity and quality of iterations by staleness.
void reproduce_ssp_figure3(reproduce_options const& options);

/// The same, §5: a staleness in between is better than either end.
void reproduce_ssp_sweet_spot(reproduce_options const& options);

/// DiLoCo paper: bytes to BSP's target over links of 100 Mbit/s.
void reproduce_diloco(reproduce_options const& options);
/// DC-ASGD paper: time to a target beside ASGD's, 8 workers.
void reproduce_dc_asgd(reproduce_options const& options);
/// EASGD paper: communication periods of 1 to 64 local steps, beside DOWNPOUR's.
void reproduce_easgd(reproduce_options const& options);

/// Gaia paper: bytes to a target beside SSP's, by the threshold of significance.
void reproduce_essp(reproduce_options const& options);
void reproduce_gaia(reproduce_options const& options);
/// Streaming DiLoCo paper: the most bytes at once, and the loss, beside DiLoCo's.
void reproduce_streaming_diloco(reproduce_options const& options);
/// LAG paper: uploads to a target beside gradient descent's.
void reproduce_lag(reproduce_options const& options);

/// Of our own: BSP and SSP over a slow and narrow network, processes beside the simulator.
void reproduce_wide_area(reproduce_options const& options);

/// No paper's: runs in threads of this process beside the same in the simulator.
void reproduce_simulator(reproduce_options const& options);

}  // namespace rubato::bench
