// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/protocols.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "bench/train/run.hpp"
#include "rubato/core/error.hpp"

namespace rubato::bench {
namespace {

using enum protocol_number;

constexpr std::array entries{
    protocol_entry{.name = "bsp", .number = none, .run = run_bsp, .adds_up = true, .tunes_batches = true,
                   .takes_merge = true},
    protocol_entry{.name = "ssp", .number = staleness, .run = run_ssp, .adds_up = true, .takes_merge = true},
    protocol_entry{.name = "asp", .number = none, .run = run_asp, .adds_up = true, .takes_merge = true},
    protocol_entry{.name = "con_sgd", .number = staleness, .run = run_con_sgd, .takes_merge = true},
    protocol_entry{
        .name = "dyn_sgd", .number = staleness, .run = run_dyn_sgd, .keeps_versions = true},
    protocol_entry{.name = "fixed_ada_comm",
                   .number = local_steps,
                   .run = run_fixed_ada_comm,
                   .tunes_batches = true},
    protocol_entry{.name = "ada_comm", .number = local_steps, .run = run_ada_comm},
    protocol_entry{.name = "adsp", .number = commit_rate, .run = run_adsp},
    protocol_entry{.name = "fed_adam",
                   .number = local_steps,
                   .run = run_fed_adam,
                   .family = protocol_family::optimizers},
    protocol_entry{.name = "slow_mo", .number = local_steps, .run = run_slow_mo, .family = protocol_family::optimizers},
    protocol_entry{.name = "diloco", .number = local_steps, .run = run_diloco, .family = protocol_family::optimizers},
    protocol_entry{.name = "async_diloco",
                   .number = local_steps,
                   .run = run_async_diloco,
                   .family = protocol_family::optimizers},
    protocol_entry{.name = "dc_asgd", .number = none, .run = run_dc_asgd, .family = protocol_family::optimizers},
    protocol_entry{.name = "easgd", .number = local_steps, .run = run_easgd, .family = protocol_family::optimizers},
    protocol_entry{.name = "k_sync", .number = round_size, .run = run_k_sync, .family = protocol_family::rounds},
    protocol_entry{.name = "k_async", .number = round_size, .run = run_k_async, .family = protocol_family::rounds},
    protocol_entry{.name = "fed_avg", .number = round_size, .run = run_fed_avg, .family = protocol_family::rounds},
    protocol_entry{.name = "fed_buff", .number = round_size, .run = run_fed_buff, .family = protocol_family::rounds},
    protocol_entry{.name = "staleness_aware",
                   .number = none,
                   .run = run_staleness_aware,
                   .family = protocol_family::rounds},
    protocol_entry{.name = "essp", .number = staleness, .run = run_essp, .family = protocol_family::waits},
    protocol_entry{.name = "dssp", .number = staleness, .run = run_dssp, .family = protocol_family::waits},
    protocol_entry{.name = "psp", .number = sample, .run = run_psp, .family = protocol_family::waits},
    protocol_entry{.name = "vap", .number = none, .run = run_vap, .family = protocol_family::waits},
    protocol_entry{.name = "gaia", .number = staleness, .run = run_gaia, .family = protocol_family::parts},
    protocol_entry{.name = "streaming_diloco",
                   .number = local_steps,
                   .run = run_streaming_diloco,
                   .family = protocol_family::parts},
    protocol_entry{.name = "lag", .number = none, .run = run_lag, .family = protocol_family::parts},
    protocol_entry{.name = "hop",
                   .number = none,
                   .run = run_hop,
                   .family = protocol_family::hop,
                   .bears_loss = false},
    protocol_entry{.name = "hop_backup",
                   .number = backups,
                   .run = run_hop_backup,
                   .family = protocol_family::hop,
                   .needs_backups = true},
    protocol_entry{.name = "hop_stale",
                   .number = peer_staleness,
                   .run = run_hop_stale,
                   .family = protocol_family::hop},
    protocol_entry{.name = "hop_hybrid",
                   .number = none,
                   .run = run_hop_hybrid,
                   .family = protocol_family::hop,
                   .needs_backups = true},
    protocol_entry{.name = "hop_skip",
                   .number = jump_max,
                   .run = run_hop_skip,
                   .family = protocol_family::hop,
                   .needs_backups = true},
    protocol_entry{.name = "notify_ack",
                   .number = none,
                   .run = run_notify_ack,
                   .family = protocol_family::hop,
                   .bears_loss = false},
    protocol_entry{.name = "ad_psgd",
                   .number = none,
                   .run = run_ad_psgd,
                   .family = protocol_family::peers,
                   .needs_sides = true},
    protocol_entry{.name = "all_reduce",
                   .number = none,
                   .run = run_all_reduce,
                   .family = protocol_family::peers,
                   .bears_loss = false},
    protocol_entry{.name = "push_sum", .number = delay, .run = run_push_sum, .family = protocol_family::peers},
    protocol_entry{.name = "gossip", .number = none, .run = run_gossip, .family = protocol_family::peers},
    protocol_entry{.name = "prague",
                   .number = group,
                   .run = run_prague,
                   .family = protocol_family::peers,
                   .bears_loss = false},
};

[[noreturn]] void reject(std::string const& what) {
  std::string known;
  for (protocol_entry const& e : entries) known += std::string(e.name) + ", ";
  throw option_error("--protocols: " + what + "; known are " + known +
                     "all; and NAME:STALENESS, NAME:LOCAL_STEPS, adsp:COMMIT_RATE, "
                     "hop_backup:BACKUPS, hop_skip:ITERATIONS, k_sync:K, psp:SAMPLE, push_sum:DELAY or prague:MEMBERS "
                     "where there is one; and bsp, ssp, asp and con_sgd "
                     "with +sum, +average or +LAMBDA");
}

protocol_entry const& find(std::string_view name) {
  auto const* const entry = std::ranges::find(entries, name, &protocol_entry::name);
  if (entry == entries.end()) reject("there is no protocol \"" + std::string(name) + "\"");
  return *entry;
}

/// What a protocol's number is called, and the least and the most that it may be.
struct number_kind {
  char const* name;
  std::int64_t least;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};
number_kind kind_of(protocol_number n) {
  constexpr std::int64_t million = 1'000'000;
  switch (n) {
    case local_steps:
      return {"number of local steps", 1, million};
    case commit_rate:
      return {"commit rate", 1, million};
    case backups:
      return {"number of backup workers", 0};
    case jump_max:
      return {"number of iterations to jump", 2};
    case round_size:
      return {"number of updates of a round", 1};
    case sample:
      return {"size of a sample", 0};
    case delay:
      return {"delay", 0};
    case group:
      return {"number of members of a group", 2, million};
    default:
      return {"staleness", 0};
  }
}

std::string range_of(number_kind const& kind) {
  if (kind.most == std::numeric_limits<std::int64_t>::max()) return fmt::format("of {} or more", kind.least);
  return fmt::format("from {} to {}", kind.least, kind.most);
}

void set_number(protocol_parameters& parameters, protocol_number n, std::int64_t value) {
  if (n == staleness) parameters.staleness = value;
  if (n == local_steps) parameters.local_steps = value;
  if (n == commit_rate) parameters.commit_rate = value;
  if (n == backups) parameters.peers.backups = value;
  if (n == peer_staleness) parameters.peers.staleness = value;
  if (n == jump_max) parameters.peers.jump_max = value;
  if (n == round_size) parameters.round_size = value;
  if (n == sample) parameters.sample = value;
  if (n == delay) parameters.peers.delay = value;
  if (n == group) parameters.peers.group = value;
}

std::optional<std::int64_t> number_of(protocol_choice const& p) {
  switch (p.entry->number) {
    case none:
      break;
    case staleness:
      return p.with.staleness;
    case local_steps:
      return p.with.local_steps;
    case commit_rate:
      return p.with.commit_rate;
    case backups:
      return p.with.peers.backups;
    case peer_staleness:
      return p.with.peers.staleness;
    case jump_max:
      return p.with.peers.jump_max;
    case round_size:
      return p.with.round_size;
    case sample:
      return p.with.sample;
    case delay:
      return p.with.peers.delay;
    case group:
      return p.with.peers.group;
  }
  return std::nullopt;
}

/// A number that is all of the text.
template <class T>
std::optional<T> whole_number(std::string_view text) {
  T value{};
  char const* const end = text.data() + text.size();
  auto const [stop, failure] = std::from_chars(text.data(), end, value);
  if (failure != std::errc{} || stop != end) return std::nullopt;
  return value;
}

named_merge merge_of(std::string_view text) {
  using enum named_merge::kind;
  if (text == "sum") return {};
  if (text == "average") return {.how = average};
  auto const weight = whole_number<double>(text);
  if (!weight || !(*weight > 0 && *weight <= 1))
    reject("there is no merge \"" + std::string(text) + "\", expected sum, average or a λ above 0 and at most 1");
  return {.how = scale, .weight = *weight};
}

/// Takes "+MERGE" out of "NAME+MERGE:NUMBER" or "NAME:NUMBER+MERGE".
std::optional<named_merge> take_merge(std::string& text) {
  std::size_t const plus = text.find('+');
  if (plus == std::string::npos) return std::nullopt;
  std::size_t const end = std::min(text.size(), text.find(':', plus));
  named_merge const merge = merge_of(std::string_view(text).substr(plus + 1, end - plus - 1));
  text.erase(plus, end - plus);
  return merge;
}

protocol_choice parse_plain(std::string_view text, protocol_parameters parameters) {
  std::size_t const colon = text.find(':');
  protocol_entry const& entry = find(text.substr(0, colon));
  if (colon == std::string_view::npos) return {&entry, parameters};
  if (entry.number == none)
    reject(std::string(entry.name) + " takes no staleness, nor another number");
  std::string_view const number = text.substr(colon + 1);
  number_kind const kind = kind_of(entry.number);
  auto const value = whole_number<std::int64_t>(number);
  if (!value || *value < kind.least || *value > kind.most)
    reject(fmt::format("\"{}\" has no {} {} after the colon", text, kind.name, range_of(kind)));
  set_number(parameters, entry.number, *value);
  return {&entry, parameters};
}

protocol_choice parse(std::string text, protocol_parameters const& parameters) {
  auto const merge = take_merge(text);
  protocol_choice p = parse_plain(text, parameters);
  if (merge && !p.entry->takes_merge) reject(std::string(p.entry->name) + " has a merge of its own");
  if (merge) p.with.merge = merge;
  return p;
}

std::string name_of(named_merge const& m) {
  switch (m.how) {
    case named_merge::kind::sum:
      return "sum";
    case named_merge::kind::average:
      return "average";
    case named_merge::kind::scale:
      break;
  }
  return fmt::format("{}", m.weight);
}

}  // namespace

std::span<protocol_entry const> known_protocols() { return entries; }

std::string_view name_of(protocol_family f) noexcept {
  constexpr std::array names = {"clocks", "optimizers", "waits", "rounds", "parts", "hop", "peers"};
  return names[static_cast<std::size_t>(f)];
}

run_result protocol_choice::run(training const& job) const {
  if (job.transport == transport_kind::mpi) over_mpi().begin(label(), job);
  run_result r = entry->run(job, with);
  r.label = label();
  r.family = name_of(entry->family);
  return r;
}

std::string protocol_choice::label() const {
  std::string text(entry->name);
  if (auto const number = number_of(*this)) text += '(' + std::to_string(*number) + ')';
  if (entry->takes_merge && with.merge) text += '+' + name_of(*with.merge);
  if (entry->keeps_versions && with.kept == versions::capped) text += "+capped";
  if (entry->keeps_versions && with.partition_sync) text += "+sync";
  if (entry->tunes_batches && with.batch_tune) text += "+batch_tune";
  if (entry->run == run_hop && with.peers.gap_max) text += "+tokens";
  if (entry->run == run_hop_stale && with.peers.plainly) text += "+plain";
  if (entry->family == protocol_family::hop && with.peers.order == iteration_order::serial)
    text += "+serial";
  return text;
}

std::vector<protocol_choice> parse_protocols(std::span<std::string const> names,
                                             protocol_parameters const& parameters) {
  std::vector<protocol_choice> chosen;
  for (std::string const& name : names) {
    if (name != "all") {
      chosen.push_back(parse(name, parameters));
      continue;
    }
    for (protocol_entry const& entry : entries) chosen.push_back({&entry, parameters, false});
  }
  return chosen;
}

}  // namespace rubato::bench
