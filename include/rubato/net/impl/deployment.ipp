// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/deployment.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <system_error>
#include <utility>

#include "rubato/core/error.hpp"

namespace rubato::net {
namespace {

constexpr std::uint32_t processes_max = 2147483647;
constexpr std::uint32_t servers_max = 65536;  // all of which each process knows
constexpr std::uint16_t usual_port = 29500;  // as other launchers have it

// A variable that is set.
struct setting {
  std::string_view name;
  std::string value;

  [[noreturn]] void refuse(std::string_view expected) const {
    throw option_error(fmt::format("{} is '{}', but must be {}", name, value, expected));
  }

  [[nodiscard]] std::uint32_t number(std::uint32_t lowest, std::uint32_t highest,
                                     std::string_view what = "a whole number") const {
    std::uint32_t result = 0;
    auto const* const end = value.data() + value.size();
    auto const [stopped, failure] = std::from_chars(value.data(), end, result);
    if (failure != std::errc{} || stopped != end || result < lowest || result > highest) {
      refuse(fmt::format("{} from {} to {}", what, lowest, highest));
    }
    return result;
  }

  [[nodiscard]] std::uint64_t whole() const {
    std::uint64_t result = 0;
    auto const* const end = value.data() + value.size();
    auto const [stopped, failure] = std::from_chars(value.data(), end, result);
    if (failure != std::errc{} || stopped != end) refuse("a whole number from 0 to 2^64 - 1; 0 is no limit");
    return result;
  }

  [[nodiscard]] bool yes() const {
    if (value != "0" && value != "1") refuse("0 or 1");
    return value == "1";
  }

  [[nodiscard]] std::chrono::milliseconds seconds(std::chrono::milliseconds lowest) const {
    constexpr double most = 1e9;
    double const least = static_cast<double>(lowest.count()) / 1000;
    double result = 0;
    auto const* const end = value.data() + value.size();
    auto const [stopped, failure] = std::from_chars(value.data(), end, result);
    bool const between = result >= least && result <= most;  // false for what is not a number
    if (failure != std::errc{} || stopped != end || !between) {
      refuse(fmt::format("seconds from {} to {:.0f}, such as 2 or 0.5", least, most));
    }
    return std::chrono::milliseconds(static_cast<std::int64_t>(result * 1000 + 0.5));
  }

  [[nodiscard]] std::string text(std::string_view expected) const {
    if (value.empty()) refuse(expected);
    return value;
  }

  [[nodiscard]] address where() const {
    try {
      return address::parse(value);
    } catch (option_error const& bad) {
      throw option_error(fmt::format("{}: {}", name, bad.what()));
    }
  }
};

class environment {
 public:
  using look_up_function = std::function<std::optional<std::string>(std::string_view)>;

  explicit environment(look_up_function const& look_up) : look_up_(look_up) {}

  // Of the first of `names` that is set.
  [[nodiscard]] std::optional<setting> get(std::initializer_list<std::string_view> names) const {
    for (auto const name : names) {
      if (auto value = look_up_(name)) return setting{name, *std::move(value)};
    }
    return std::nullopt;
  }
  [[nodiscard]] std::optional<setting> get(std::string_view name) const { return get({name}); }

 private:
  look_up_function const& look_up_;
};

// `node[01-04,9],login` begins with node01.
std::string first_host(setting const& list) {
  auto const refuse = [&] { list.refuse("a list of hosts such as node[01-04,9],login"); };
  std::string host;
  std::string_view rest = list.value;
  while (!rest.empty() && rest.front() != ',') {
    if (rest.front() == '[') {
      auto const close = rest.find(']');
      if (close == std::string_view::npos) refuse();
      auto const digits = std::min(rest.find_first_not_of("0123456789", 1), close);
      bool const ends_a_number = rest[digits] == '-' || rest[digits] == ',' || digits == close;
      if (digits == 1 || !ends_a_number) refuse();
      host += rest.substr(1, digits - 1);
      rest.remove_prefix(close + 1);
    } else {
      if (rest.front() == ']' || rest.front() == ' ') refuse();
      host += rest.front();
      rest.remove_prefix(1);
    }
  }
  if (host.empty()) refuse();
  return host;
}

std::string coordinator_host(environment const& set) {
  if (auto const host = set.get("MASTER_ADDR")) {
    // A number of IPv6 has two colons at least.
    bool const with_port = std::count(host->value.begin(), host->value.end(), ':') == 1;
    bool const is_other = host->value.find_first_of("[] \t\n/") != std::string::npos;
    if (host->value.empty() || with_port || is_other)
      host->refuse("a host's name or number, without a port or brackets");
    return host->value;
  }
  if (auto const list = set.get({"SLURM_JOB_NODELIST", "SLURM_NODELIST"})) return first_host(*list);
  return "127.0.0.1";
}

address coordinator_address(environment const& set) {
  if (auto const whole = set.get("RUBATO_COORDINATOR")) return whole->where();
  address result{.host = coordinator_host(set), .port = usual_port};
  if (auto const port = set.get("MASTER_PORT")) {
    result.port = static_cast<std::uint16_t>(port->number(1, 65535, "a port"));
  }
  return result;
}

role role_of(setting const& given) {
  for (role const each : {role::worker, role::server, role::coordinator}) {
    if (given.value == to_string(each)) return each;
  }
  given.refuse("worker, server or coordinator");
}

std::uint32_t number_in(deployment const& d, role r) {
  switch (r) {
    case role::worker:
      return d.workers;
    case role::server:
      return d.servers;
    case role::coordinator:
      return 1;
  }
  return 0;
}

// Each role has its own command, whose launcher counts the workers.
void place_by_role(deployment& d, setting const& given, std::optional<setting> const& number,
                   std::optional<setting> const& size) {
  d.as = role_of(given);
  if (size) d.workers = size->number(1, processes_max);
  if (!number) return;
  d.rank = number->number(0, processes_max - 1);
  if (*d.rank >= number_in(d, d.as)) {
    number->refuse(fmt::format("below {}, the number of {}s", number_in(d, d.as), to_string(d.as)));
  }
}

// One command for all: a process's role follows from its number.
void place_by_number(deployment& d, std::optional<setting> const& number,
                     std::optional<setting> const& size) {
  std::uint32_t const processes = size ? size->number(1, processes_max) : 1;
  if (processes > 1 && !number) {
    throw option_error(
        fmt::format("{} is '{}', but RANK is not set: must be the number of this process",
                    size->name, size->value));
  }
  if (number && number->number(0, processes_max - 1) >= processes) {
    number->refuse(fmt::format("below {}, the number of processes", processes));
  }
  if (number) d.rank = number->number(0, processes_max - 1);
  if (processes == 1) return;
  std::uint32_t const others = 1 + d.servers;
  if (processes <= others) {
    size->refuse(fmt::format(
        "at least {}: a coordinator, as many servers as RUBATO_SERVERS says ({}) and a worker",
        others + 1, d.servers));
  }
  d.workers = processes - others;
  d.as = d.rank == 0u ? role::coordinator : d.rank <= d.servers ? role::server : role::worker;
  if (d.as == role::server) *d.rank -= 1;
  if (d.as == role::worker) *d.rank -= others;
}

void place(deployment& d, environment const& set) {
  if (auto const servers = set.get("RUBATO_SERVERS")) d.servers = servers->number(0, servers_max);
  auto const number = set.get({"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"});
  auto const size = set.get({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"});
  if (auto const given = set.get("RUBATO_ROLE")) {
    place_by_role(d, *given, number, size);
  } else {
    place_by_number(d, number, size);
  }
}

std::string token_from(setting const& file) {
  std::ifstream in(file.text("the name of a file"), std::ios::binary);
  constexpr std::size_t longest = 64 * 1024;  // some files have no end
  std::string token(longest + 1, '\0');
  in.read(token.data(), static_cast<std::streamsize>(token.size()));
  token.resize(static_cast<std::size_t>(in.gcount()));
  if (token.size() > longest) file.refuse("a file of at most " + std::to_string(longest) + " bytes");
  // Editors and `echo` end a file with a newline, which nobody means to be part of the secret.
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  if (token.empty()) file.refuse("a file that can be read and holds the shared secret");
  return token;
}

std::string shared_secret(environment const& set) {
  auto const token = set.get("RUBATO_TOKEN");
  auto const file = set.get("RUBATO_TOKEN_FILE");
  if (token && file) file->refuse("not set where RUBATO_TOKEN is");
  if (file) return token_from(*file);
  // Not `refuse`, which would show the value if there were one.
  if (token && token->value.empty()) {
    throw option_error("RUBATO_TOKEN is '', but must be the shared secret or not set");
  }
  return token ? token->value : std::string();
}

std::optional<tls_files> certificates(environment const& set) {
  constexpr std::string_view names[] = {"RUBATO_TLS_CERTIFICATE", "RUBATO_TLS_KEY",
                                        "RUBATO_TLS_AUTHORITY"};
  auto const one = set.get({names[0], names[1], names[2]});
  if (!one) return std::nullopt;
  auto const file = [&](std::string_view name) {
    if (auto const found = set.get(name)) return found->text("the name of a file");
    throw option_error(fmt::format("{} is not set, but must name a file, as {} is '{}'", name,
                                   one->name, one->value));
  };
  return tls_files{
      .certificate = file(names[0]), .key = file(names[1]), .authority = file(names[2])};
}

bool beyond_loopback(environment const& set) {
  auto const given = set.get("RUBATO_BEYOND_LOOPBACK");
  return given && given->yes();
}

on_loss what_a_loss_means(setting const& given) {
  if (given.value == "end") return on_loss::end;
  if (given.value == "go-on") return on_loss::go_on;
  given.refuse("end or go-on");
}

log_format format_named(setting const& given) {
  if (auto const known = log_format_from(given.value)) return *known;
  given.refuse("text, keyvalue or json");
}

void set_times(deployment& d, environment const& set) {
  using std::chrono::milliseconds;
  if (auto const given = set.get("RUBATO_SILENCE")) d.silence = given->seconds(milliseconds(1));
  if (auto const given = set.get("RUBATO_RECONNECT")) d.reconnect = given->seconds(milliseconds(0));
  if (auto const given = set.get("RUBATO_PATIENCE")) d.patience = given->seconds(milliseconds(1));
  if (auto const given = set.get("RUBATO_LONG_WAIT")) d.long_wait = given->seconds(milliseconds(0));
  if (auto const given = set.get("RUBATO_BREAKS_MAX")) d.breaks_max = given->number(1, processes_max);
}

void set_limits(server_limits& l, environment const& set) {
  if (auto const given = set.get("RUBATO_CHECK_FINITE")) l.check_finite = given->yes();
  if (auto const given = set.get("RUBATO_ROWS_MAX")) l.rows_max = given->whole();
  if (auto const given = set.get("RUBATO_BYTES_MAX")) l.bytes_max = given->whole();
}

void require_between(std::string_view member, std::int64_t value, std::int64_t lowest,
                     std::int64_t highest) {
  if (value >= lowest && value <= highest) return;
  throw option_error(fmt::format("deployment::{} must be between {} and {}, but is {}", member,
                                 lowest, highest, value));
}

// Moments and sums of such times are still far from the end of a clock.
void require_time(char const* member, std::chrono::milliseconds value, std::int64_t lowest) {
  require_between(std::string(member) + ", in milliseconds,", value.count(), lowest, 1'000'000'000'000);
}

void require_allowed(std::string_view member, address const& where, security const& keys) {
  if (keys.beyond_loopback || where.is_loopback()) return;
  throw option_error(fmt::format(
      "deployment::{} must be on this machine's loopback network unless security::beyond_loopback "
      "(RUBATO_BEYOND_LOOPBACK=1) is set, but is {}",
      member, where.text()));
}

// Whoever reaches this process must prove who it is, unless it runs on this machine.
void require_keys(std::string_view member, address const& where, security const& keys) {
  if (where.is_loopback() || !keys.token.empty() || keys.tls) return;
  throw option_error(fmt::format(
      "deployment::{} is {}, which other machines can reach, and anybody there could read and "
      "change parameters; expected a token (RUBATO_TOKEN_FILE, security::token, or rubato-server "
      "--token-file) or certificates (RUBATO_TLS_CERTIFICATE, RUBATO_TLS_KEY and "
      "RUBATO_TLS_AUTHORITY, security::tls, or rubato-server --tls-certificate, --tls-key and "
      "--tls-authority)",
      member, where.text()));
}

void require_guarded(std::string_view member, address const& where, security const& keys) {
  require_allowed(member, where, keys);
  require_keys(member, where, keys);
}

// One that others find from whatever folder they run in.
address absolute(address where) {
  std::error_code no_folder;
  if (!where.is_unix()) return where;
  auto const path = std::filesystem::absolute(where.path, no_folder);
  if (!no_folder) where.path = path.string();
  return where;
}

// One that others must know before it listens.
void require_known(std::string_view member, address const& where) {
  if (where.is_unix() && where.path.ends_with('*'))
    throw option_error(fmt::format("deployment::{} must be where others find it, but the end of '{}' is chosen by who "
                                   "listens there",
                                   member, where.path));
  if (where.is_unix() || (!where.host.empty() && where.port != 0)) return;
  bool const is_unset = where.host.empty() && where.port == 0;
  throw option_error(
      fmt::format("deployment::{} must have a host and a port other than 0, but is '{}:{}'{}", member, where.host,
                  where.port, is_unset ? "; from_environment() takes it from what a launcher says" : ""));
}

void require_files(std::optional<tls_files> const& tls) {
  if (!tls) return;
  if (!tls->certificate.empty() && !tls->key.empty() && !tls->authority.empty()) return;
  throw option_error(
      fmt::format("tls_files must name three files, but certificate is '{}', key is '{}' and "
                  "authority is '{}'",
                  tls->certificate, tls->key, tls->authority));
}

}  // namespace

deployment deployment::from_environment(
    std::function<std::optional<std::string>(std::string_view)> const& look_up) {
  environment const set(look_up);
  deployment result;
  place(result, set);
  result.coordinator = coordinator_address(set);
  if (auto const given = set.get("RUBATO_LISTEN")) result.listen = given->where();
  if (auto const given = set.get("RUBATO_ANNOUNCE")) result.announce = given->where();
  result.keys = {.token = shared_secret(set),
                 .tls = certificates(set),
                 .beyond_loopback = net::beyond_loopback(set)};
  if (auto const given = set.get("RUBATO_ON_LOSS")) result.when_lost = what_a_loss_means(*given);
  if (auto const given = set.get("RUBATO_LOG_FORMAT")) result.logs = format_named(*given);
  if (auto const given = set.get("RUBATO_SHARE_MEMORY")) result.share_memory = given->yes();
  if (auto const given = set.get("RUBATO_BUSY_POLL"))
    result.busy_poll = std::chrono::microseconds(
        given->number(0, static_cast<std::uint32_t>(longest_busy_poll.count()), "microseconds"));
  if (auto const given = set.get("RUBATO_PLACE_KEY")) result.place_key = given->value;
  set_times(result, set);
  set_limits(result.limits, set);
  return result;
}

deployment deployment::from_environment() {
  return from_environment([](std::string_view name) -> std::optional<std::string> {
    char const* const value = std::getenv(std::string(name).c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  });
}

address deployment::listening() const {
  if (listen) return absolute(*listen);
  // Whoever reaches the coordinator's socket mostly reaches one beside it: on this machine, by this user.
  if (std::string const beside = absolute(coordinator).path;
      coordinator.is_unix() && !announce && beside.size() <= coordinator_path_max)
    return {.host = {}, .port = 0, .path = beside + "." + to_string(as) + "-*"};
  if (!keys.beyond_loopback || coordinator.is_loopback()) return {.host = "127.0.0.1", .port = 0};
  bool const by_ipv6 = coordinator.host.find(':') != std::string::npos;
  return {.host = by_ipv6 ? "::" : "0.0.0.0", .port = 0};
}

void deployment::check() const {
  require_between("workers", workers, 1, processes_max);
  require_between("servers", servers, 0, servers_max);
  if (rank) require_between("rank", *rank, 0, std::int64_t{number_in(*this, as)} - 1);
  require_known("coordinator", coordinator);
  if (as == role::coordinator) require_guarded("coordinator", coordinator, keys);
  bool const is_peer = as == role::worker && servers == 0;
  if (as == role::server || is_peer) require_guarded("listen", listening(), keys);
  if (announce) require_known("announce", *announce);
  require_files(keys.tls);
  require_time("silence", silence, 1);
  require_time("reconnect", reconnect, 0);
  require_time("patience", patience, 1);
  require_time("long_wait", long_wait, 0);
  require_between("breaks_max", breaks_max, 1, std::int64_t{processes_max});
  require_between("busy_poll, in microseconds,", busy_poll.count(), 0, longest_busy_poll.count());
}

}  // namespace rubato::net
