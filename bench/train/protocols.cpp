// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/protocols.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "rubato/core/error.hpp"

namespace rubato::bench {
namespace {

constexpr std::array entries{
    protocol_entry{"bsp", false, run_bsp},
    protocol_entry{"ssp", true, run_ssp},
    protocol_entry{"asp", false, run_asp},
    protocol_entry{"con_sgd", true, run_con_sgd},
    protocol_entry{"dyn_sgd", true, run_dyn_sgd, true},
};

[[noreturn]] void reject(std::string const& what) {
  std::string known;
  for (protocol_entry const& e : entries) known += std::string(e.name) + ", ";
  throw option_error("--protocols: " + what + "; known are " + known +
                     "all, and NAME:STALENESS where there is one");
}

protocol_entry const& find(std::string_view name) {
  auto const* const entry = std::ranges::find(entries, name, &protocol_entry::name);
  if (entry == entries.end()) reject("there is no protocol \"" + std::string(name) + "\"");
  return *entry;
}

protocol_choice parse(std::string_view text, protocol_parameters parameters) {
  std::size_t const colon = text.find(':');
  protocol_entry const& entry = find(text.substr(0, colon));
  if (colon == std::string_view::npos) return {&entry, parameters};
  if (!entry.takes_staleness) reject(std::string(entry.name) + " takes no staleness");
  std::string_view const number = text.substr(colon + 1);
  char const* const end = number.data() + number.size();
  auto const [stop, failure] = std::from_chars(number.data(), end, parameters.staleness);
  if (failure != std::errc{} || stop != end || parameters.staleness < 0)
    reject("\"" + std::string(text) + "\" has no staleness of 0 or more after the colon");
  return {&entry, parameters};
}

}  // namespace

std::span<protocol_entry const> known_protocols() { return entries; }

run_result protocol_choice::run(training const& job) const {
  run_result r = entry->run(job, with);
  r.label = label();
  return r;
}

std::string protocol_choice::label() const {
  std::string text(entry->name);
  if (entry->takes_staleness) text += '(' + std::to_string(with.staleness) + ')';
  if (!entry->keeps_versions) return text;
  if (with.kept == versions::capped) text += "+capped";
  if (with.partition_sync) text += "+sync";
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
    for (protocol_entry const& entry : entries) chosen.push_back({&entry, parameters});
  }
  return chosen;
}

}  // namespace rubato::bench
