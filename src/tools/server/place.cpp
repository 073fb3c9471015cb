// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "src/tools/server/place.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rubato/core/error.hpp"

namespace rubato::server_tool {

namespace {

using variable_names = std::vector<std::string_view>;

variable_names const numbers{"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"};
variable_names const sizes{"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"};
variable_names const files_of_tls{"RUBATO_TLS_CERTIFICATE", "RUBATO_TLS_KEY", "RUBATO_TLS_AUTHORITY"};

/// Those that need not be looked at where an option is given, in whatever state they are.
std::pair<char const*, variable_names> const stand_ins[] = {
    {"--coordinator", {"RUBATO_COORDINATOR", "MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}},
    {"--listen", {"RUBATO_LISTEN"}},
    {"--beyond-loopback", {"RUBATO_BEYOND_LOOPBACK"}},
    {"--token-file", {"RUBATO_TOKEN", "RUBATO_TOKEN_FILE"}},
    {"--tls-certificate", files_of_tls},
    {"--tls-key", files_of_tls},
    {"--tls-authority", files_of_tls},
    {"--on-loss", {"RUBATO_ON_LOSS"}},
    {"--silence", {"RUBATO_SILENCE"}},
    {"--reconnect", {"RUBATO_RECONNECT"}},
    {"--patience", {"RUBATO_PATIENCE"}},
    {"--breaks-max", {"RUBATO_BREAKS_MAX"}},
    {"--check-finite", {"RUBATO_CHECK_FINITE"}},
    {"--rows-max", {"RUBATO_ROWS_MAX"}},
    {"--bytes-max", {"RUBATO_BYTES_MAX"}},
    {"--log-format", {"RUBATO_LOG_FORMAT"}},
};

/// The environment, but for those that options stand for.
class variables {
 public:
  void leave_out(variable_names const& which) {
    for (auto const name : which) instead_[std::string(name)] = std::nullopt;
  }
  void set(std::string const& name, std::string value) { instead_[name] = std::move(value); }

  [[nodiscard]] std::optional<std::string> operator()(std::string_view name) const {
    if (auto const found = instead_.find(name); found != instead_.end()) return found->second;
    char const* const value = std::getenv(std::string(name).c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  }

 private:
  std::map<std::string, std::optional<std::string>, std::less<>> instead_;
};

/// A process's place, as far as its command line tells it.
struct told {
  explicit told(CLI::App const& app)
      : has_rank(app.count("--rank") != 0), with_coordinator(app.count("--with-coordinator") != 0) {
    if (app.count("--role") != 0) role = app["--role"]->as<std::string>();
    if (app.count("--workers") != 0) workers = app["--workers"]->as<std::uint32_t>();
    if (app.count("--servers") != 0) servers = app["--servers"]->as<std::string>();
  }

  std::optional<std::string> role;
  std::optional<std::uint32_t> workers;
  std::optional<std::string> servers;
  bool has_rank;
  bool with_coordinator;
};

/// The variables count those of a role. Another role's numbers mean nothing to this process.
void settle_by_role(variables& seen, told const& here, std::string const& role) {
  std::string const as = here.role ? *here.role : role == "worker" ? "server" : role;
  if (here.has_rank || as != role) seen.leave_out(numbers);
  if (here.workers) seen.leave_out(sizes);
  seen.set("RUBATO_ROLE", as);
}

/// Whether numbers that count all processes put this one where its options do.
bool numbers_fit(variables const& seen, told const& here) {
  auto const of_place = [&](std::string_view name) -> std::optional<std::string> {
    bool const counts = name == "RUBATO_SERVERS" || std::ranges::find(numbers, name) != numbers.end() ||
                        std::ranges::find(sizes, name) != sizes.end();
    return counts ? seen(name) : std::nullopt;
  };
  try {
    auto const counted = net::deployment::from_environment(of_place);
    std::string const as = to_string(counted.as);
    bool const is_server = here.has_rank || here.with_coordinator;
    return as == here.role.value_or(is_server ? "server" : as) &&
           counted.workers == here.workers.value_or(counted.workers);
  } catch (option_error const&) {
    return false;
  }
}

void settle_by_number(variables& seen, told const& here) {
  bool const has_place = here.role || here.workers || here.has_rank || here.with_coordinator;
  if (!has_place || numbers_fit(seen, here)) return;
  seen.leave_out(numbers);
  seen.leave_out(sizes);
}

}  // namespace

net::deployment place_in_environment(CLI::App const& app) {
  variables seen;
  for (auto const& [option, which] : stand_ins)
    if (app.count(option) != 0) seen.leave_out(which);
  told const here(app);
  if (here.servers) seen.set("RUBATO_SERVERS", *here.servers);
  if (auto const role = seen("RUBATO_ROLE")) settle_by_role(seen, here, *role);
  else settle_by_number(seen, here);
  auto place = net::deployment::from_environment(seen);
  if (place.as == net::role::worker) {  // nobody said what it is, or what says so is not meant for it
    place.as = net::role::server;
    place.rank.reset();
  }
  return place;
}

}  // namespace rubato::server_tool
