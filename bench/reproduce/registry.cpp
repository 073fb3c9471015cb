// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/registry.hpp"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace rubato::bench {
namespace {

constexpr std::array all{
    reproduction{
        "sigmod17-table3",
        "BSP, ASP, SSP, ConSGD and DynSGD at HL 1 and 2: run time, updates, time per update",
        reproduce_sigmod17_table3},
    reproduction{"sigmod17-heterogeneity", "the same: what makes updates grow with HL, one thing at a time",
                 reproduce_sigmod17_heterogeneity},
    reproduction{"sigmod17-figure2", "BSP, ASP, SSP and FlexRR as HL grows from 1 to 2", reproduce_sigmod17_figure2},
    reproduction{"sigmod17-figure6", "a production cluster: each worker's time for a clock",
                 reproduce_sigmod17_figure6},
    reproduction{"sigmod17-figure7", "the same: BSP, ASP, SSP, FlexRR, ConSGD and DynSGD",
                 reproduce_sigmod17_figure7},
    reproduction{"sigmod17-table4", "ConSGD: the global learning rate", reproduce_sigmod17_table4},
    reproduction{"sigmod17-figure9", "SSP, ConSGD and DynSGD: best convergence at HL 2",
                 reproduce_sigmod17_figure9},
    reproduction{"sigmod17-figure10", "the same at 1/4 to 4 times the best rate",
                 reproduce_sigmod17_figure10},
    reproduction{"sigmod17-figure11", "the same with staleness 3 to 40",
                 reproduce_sigmod17_figure11},
    reproduction{"sigmod17-figure12", "the same with 5 to 100 workers",
                 reproduce_sigmod17_figure12},
    reproduction{"sigmod17-figure13", "memory of the servers under DynSGD with staleness 3 to 40",
                 reproduce_sigmod17_figure13},
    reproduction{"sigmod17-figure13-cpu", "what servers and workers compute there, as processes",
                 reproduce_sigmod17_figure13_cpu},
    reproduction{"sigmod17-figure16", "DynSGD with and without partition synchronization",
                 reproduce_sigmod17_figure16},
    reproduction{"adsp-figure1", "BSP, SSP, ADACOMM and ADSP: where time goes with speeds 1:1:3",
                 reproduce_adsp_figure1},
    reproduction{"adsp-figure3", "ADSP: the commit rate, convergence time and momentum, implicit or not",
                 reproduce_adsp_figure3},
    reproduction{"adsp-figure4", "BSP, SSP, ADACOMM, Fixed ADACOMM and ADSP on 18 EC2 instances",
                 reproduce_adsp_figure4},
    reproduction{"adsp-figure5", "Fixed ADACOMM and ADSP: heterogeneity 1 to 3.2, 18 and 36 workers",
                 reproduce_adsp_figure5},
    reproduction{"adsp-figure6", "the five of figure 4 with extra delays", reproduce_adsp_figure6},
    reproduction{"adsp-figure8", "ADSP+: an offline search of each worker's local steps",
                 reproduce_adsp_figure8},
    reproduction{"adsp-figure9", "BSP and Fixed ADACOMM with batches in proportion to speeds",
                 reproduce_adsp_figure9},
    reproduction{"adsp-figure10", "bandwidth; ADSP++: a blocking search of rate and momentum",
                 reproduce_adsp_figure10},
    reproduction{"adsp-figure11", "the five of figure 4 at the times of a large model", reproduce_adsp_figure11},
    reproduction{"adsp-figure13", "the five of figure 4: regression on chillers",
                 reproduce_adsp_figure13},
    reproduction{"adsp-search", "ADSP: what the online search finds beside the best fixed rate",
                 reproduce_adsp_search},
    reproduction{"hop-figure12", "peers on three graphs, with and without random slowdown",
                 reproduce_hop_figure12},
    reproduction{"hop-figure13", "peers beside BSP with one parameter server",
                 reproduce_hop_figure13},
    reproduction{"hop-figure14", "one backup worker under random slowdown: loss over time",
                 reproduce_hop_figure14},
    reproduction{"hop-figure15", "the same: loss over steps", reproduce_hop_figure15},
    reproduction{"hop-figure16", "the same: speed of iterations, and the timing model",
                 reproduce_hop_figure16},
    reproduction{"hop-figure17", "staleness 5 beside a backup worker under random slowdown",
                 reproduce_hop_figure17},
    reproduction{"hop-figure18",
                 "a straggler leaves iterations out: their duration, and the timing model",
                 reproduce_hop_figure18},
    reproduction{"hop-figure19", "the same: loss over time", reproduce_hop_figure19},
    reproduction{"hop-figure20", "three graphs of 8 workers unevenly on 3 machines",
                 reproduce_hop_figure20},
    reproduction{"hop-figure21", "the spectral gaps of these graphs", reproduce_hop_figure21},
    reproduction{"hop-equation2", "staleness: updates weighted by their age beside a plain average",
                 reproduce_hop_equation2},
    reproduction{"push-sum", "stochastic gradient push beside all-reduce, on 4 to 32 nodes", reproduce_push_sum},
    reproduction{"prague", "partial all-reduce beside all-reduce and AD-PSGD, with and without a straggler",
                 reproduce_prague},
    reproduction{"gossip", "GoSGD: how often a worker sends, with a straggler", reproduce_gossip},
    reproduction{"k-sync", "K-sync, K-async and their batch forms: a version's time beside closed forms, and the error",
                 reproduce_k_sync},
    reproduction{"backup-workers", "synchronous SGD on 100 workers: how many of them to leave out",
                 reproduce_backup_workers},
    reproduction{"fed-avg", "FedAvg and FedSGD: rounds to a target, with rows at random and by label",
                 reproduce_fed_avg},
    reproduction{"fed-buff", "FedBuff beside FedAvg where clients take long at times", reproduce_fed_buff},
    reproduction{"staleness-aware", "n-softsync of 30 learners: rates divided by staleness", reproduce_staleness_aware},
    reproduction{"flexps-figure1", "SGD: what an iteration takes by degree, with batches of 100 and 10000",
                 reproduce_flexps_figure1},
    reproduction{"flexps-figure5", "and table2: degrees found while a stage runs, the best, and random ones",
                 reproduce_flexps_figure5},
    reproduction{"flexps-figure6", "and table3: SVRG with degrees by stage and with one for all",
                 reproduce_flexps_figure6},
    reproduction{"flexps-figure7", "and table4: the same for SGD in three phases", reproduce_flexps_figure7},
    reproduction{"flexps-figure10", "single-machine mode beside servers, 20 workers on one machine",
                 reproduce_flexps_figure10},
    reproduction{"flexps-figure11", "ten stages beside one, with BSP, SSP and ASP",
                 reproduce_flexps_figure11},
    reproduction{"ssp-theorem1", "SSP, ConSGD and DynSGD: measured regret and staleness beside the theorems' bounds",
                 reproduce_ssp_theorem1},
    reproduction{"ssp-figure3", "SSP, BSP and ASP: LDA, MF and Lasso on 8 to 32 machines; waiting, quantity, quality",
                 reproduce_ssp_figure3},
    reproduction{"ssp-sweet-spot", "a staleness in between is better than BSP and ASP, by ten seeds",
                 reproduce_ssp_sweet_spot},
    reproduction{"diloco", "DiLoCo and BSP over 20 ms and 100 Mbit/s: bytes to a target", reproduce_diloco},
    reproduction{"dc-asgd", "DC-ASGD beside ASGD, 8 workers", reproduce_dc_asgd},
    reproduction{"easgd", "EASGD and DOWNPOUR with communication periods of 1 to 64 local steps", reproduce_easgd},
    reproduction{"essp", "ESSP beside SSP: ages of what is read, and time to a target", reproduce_essp},
    reproduction{"eamsgd", "EASGD with momentum in the workers, beside EASGD and DOWNPOUR", reproduce_eamsgd},
    reproduction{"slow-mo", "local SGD with a slow momentum on the servers, beside local SGD", reproduce_slow_mo},
    reproduction{"async-diloco", "DiLoCo without waiting: Nesterov's momentum, delayed or not", reproduce_async_diloco},
    reproduction{"fed-adam", "FedAdagrad, FedAdam and FedYogi beside FedAvg", reproduce_fed_adam},
    reproduction{"gaia", "Gaia beside SSP over 20 ms and 100 Mbit/s: bytes to a target", reproduce_gaia},
    reproduction{"streaming-diloco", "DiLoCo in fragments: the most bytes at once, and the loss",
                 reproduce_streaming_diloco},
    reproduction{"lag", "LAG and gradient descent: uploads to a target", reproduce_lag},
    reproduction{"dssp", "DSSP beside SSP with each staleness of its range, BSP and ASP", reproduce_dssp},
    reproduction{"psp", "PSP: how far 200 workers come by the size of a sample, and the error with stragglers",
                 reproduce_psp},
    reproduction{"vap", "VAP: whether its limit holds, and what that costs in waiting", reproduce_vap},
    reproduction{"wide-area", "BSP and SSP over 20 ms and 100 Mbit/s: processes and the simulator",
                 reproduce_wide_area},
    reproduction{"simulator", "runs in threads of this machine beside the same in the simulator", reproduce_simulator},
};

}  // namespace

std::optional<std::string> reproduce_options::data_file(std::string const& name) const {
  std::filesystem::path dir = data_dir;
  if (dir.empty())
    if (char const* const set = std::getenv("RUBATO_DATA"); set != nullptr) dir = set;
  if (dir.empty()) dir = std::filesystem::path("..") / "shared" / "data";
  std::error_code ignored;  // a name too long for the system is that of no file
  if (!std::filesystem::exists(dir / name, ignored)) return std::nullopt;
  return (dir / name).string();
}

std::span<reproduction const> reproductions() { return all; }

}  // namespace rubato::bench
