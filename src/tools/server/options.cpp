// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "src/tools/server/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>

#include "rubato/core/error.hpp"
#include "rubato/version.hpp"
#include "src/tools/above_zero.hpp"
#include "src/tools/empty_values.hpp"
#include "src/tools/server/host.hpp"
#include "src/tools/server/place.hpp"
#include "src/tools/whole_numbers.hpp"

namespace rubato::server_tool {

namespace {

/// As far as the environment's go.
void check_seconds(char const* option, double s) {
  constexpr double most = 1e9;
  if (!(s <= most))  // nor what is not a number
    throw option_error(fmt::format("{}: {}, expected seconds up to {:.0f}", option, s, most));
}

std::chrono::milliseconds milliseconds_of(char const* option, double s) {
  check_seconds(option, s);
  return std::chrono::milliseconds(std::llround(s * 1000));
}

/// What may be written as text, and is parsed once all options are in.
struct texts {
  std::string role;
  std::string coordinator;
  std::string listen;
  std::string on_loss;
  std::string metrics;
  std::string log_format;
  std::string staleness;
  std::string token_file;
  table_texts tables;
  net::tls_files tls;
  double silence = 0;
  std::optional<double> reconnect;  // 0 means something
  double patience = 0;
};

void add_place(CLI::App& app, options& o, texts& t) {
  app.add_option("--role", t.role, "server, or coordinator")
      ->check(CLI::IsMember({"server", "coordinator"}));
  app.add_flag("--with-coordinator", o.with_coordinator, "this server also coordinates the run");
  app.add_option("--rank", o.place.rank, "this server's number; the coordinator gives one if not set");
  app.add_option("--workers", o.place.workers, "worker processes that a run begins with")
      ->check(tools::above_zero());
  app.add_option("--servers", o.place.servers, "server processes")->check(CLI::Range(1, 65536));
  app.add_option("--coordinator", t.coordinator, "its address: HOST:PORT or unix:PATH");
  app.add_option("--listen", t.listen,
                 "where this server listens; port 0 is any that is free [127.0.0.1:0, or beside the coordinator's "
                 "Unix-domain socket]");
  app.add_flag("--beyond-loopback", o.place.keys.beyond_loopback,
               "allow listening on addresses of other machines' networks, with a token or TLS");
  app.add_option("--token-file", t.token_file, "file with the secret that all processes share");
  app.add_option("--tls-certificate", t.tls.certificate, "this process's certificate (PEM)");
  app.add_option("--tls-key", t.tls.key, "its key (PEM), without a pass phrase");
  app.add_option("--tls-authority", t.tls.authority, "who must have signed the others' (PEM)");
  app.add_option("--on-loss", t.on_loss,
                 "of the coordinator: end the run when a worker is lost, or go-on without it [end]")
      ->check(CLI::IsMember({"end", "go-on"}));
  app.add_option("--silence", t.silence,
                 "seconds after which a connection on which nothing is heard counts as broken [5]")
      ->check(tools::above_zero());
  app.add_option("--reconnect", t.reconnect,
                 "seconds within which a broken connection may come back, or the process is lost [2]")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--breaks-max", o.place.breaks_max,
                 "connections to a process that may break in a row with nothing got through [20]")
      ->check(tools::above_zero());
  app.add_option("--patience", t.patience, "seconds to wait for the other processes [60]")
      ->check(tools::above_zero());
}

void add_limits(CLI::App& app, net::server_limits& l) {
  app.add_flag("--check-finite", l.check_finite, "cut off worker processes that commit NaN or infinity");
  app.add_option("--rows-max", l.rows_max,
                 "rows of sparse tables that one worker process may be the first to commit [no limit]");
  app.add_option("--bytes-max", l.bytes_max,
                 "bytes kept for one worker process: those rows, commits held back, answers not read [no limit]");
}

void add_protocol(CLI::App& app, options& o, texts& t) {
  app.add_option("--protocol", o.protocol, "what the workers run")
      ->check(CLI::IsMember({"bsp", "ssp", "asp", "con_sgd", "dyn_sgd", "adsp", "ada_comm",
                             "fixed_ada_comm"}))
      ->capture_default_str();
  app.add_option("--staleness", t.staleness, "of ssp, con_sgd and dyn_sgd: clocks, or \"infinite\" [3]");
  app.add_option("--lambda", o.lambda, "of con_sgd and adsp: what an update counts, above 0, if not 1/M");
  app.add_option("--check-period", o.check_period, "of adsp: seconds in which a worker makes its quota of commits")
      ->check(tools::above_zero())
      ->capture_default_str();
  app.add_option("--epoch", o.epoch, "of adsp: seconds from one search for the best rate to the next")
      ->check(tools::above_zero())
      ->capture_default_str();
  app.add_option("--probe-period", o.probe_period, "of adsp: seconds for which the search tries a rate")
      ->check(tools::above_zero())
      ->capture_default_str();
  app.add_option("--first-rate", o.first_rate, "of adsp: commits per check period to begin with")
      ->check(tools::above_zero())
      ->capture_default_str();
  app.add_flag("!--no-search", o.search, "of adsp: keep the first rate");
  app.add_option("--first-steps", o.first_steps, "of ada_comm: local steps per commit to begin with")
      ->check(tools::above_zero())
      ->capture_default_str();
  app.add_option("--interval", o.interval, "of ada_comm: seconds after which the period is looked at again")
      ->check(tools::above_zero())
      ->capture_default_str();
  app.add_option("--gamma", o.gamma, "of ada_comm: what the period is multiplied by where the loss asks for no less")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
}

void add_tables(CLI::App& app, texts& t) {
  app.add_option("--storage", t.tables.storage,
                 "how a table is kept: dense, sparse, multi_version or multi_version_sparse")
      ->type_name("LIST")
      ->capture_default_str();
  app.add_option("--type", t.tables.type, "of a table's elements: float, double, int32 or int64")
      ->type_name("LIST")
      ->capture_default_str();
  app.add_option("--rows", t.tables.rows, "a table's rows; of a sparse one 0 allows any key")
      ->type_name("LIST");
  app.add_option("--width", t.tables.width, "elements in a row")
      ->type_name("LIST")
      ->capture_default_str();
  app.add_option("--merge", t.tables.merge,
                 "what updates are worth: as the protocol says, or sum or average")
      ->type_name("LIST")
      ->capture_default_str();
  app.add_option("--partition", t.tables.partition,
                 "which server holds which rows: by range, hash or range_hash")
      ->type_name("LIST")
      ->capture_default_str();
  app.add_option("--update-codec", t.tables.update_codec,
                 "how workers write what they commit, as their program says: none, bfloat16 or int8")
      ->type_name("LIST")
      ->capture_default_str();
  app.add_option("--answer-codec", t.tables.answer_codec, "how the server writes what they read: none, bfloat16 or int8")
      ->type_name("LIST")
      ->capture_default_str();
}

staleness staleness_from(std::string const& text) {
  if (text == "infinite") return staleness::infinite();
  std::size_t end = 0;
  long long clocks = -1;
  try {
    clocks = std::stoll(text, &end);
  } catch (std::exception const&) {
    end = 0;
  }
  if (clocks < 0 || end != text.size())
    throw option_error("--staleness: " + text + ", expected a number of clocks, or \"infinite\"");
  return clocks;
}

/// The environment may name the files that options do not.
void complete(net::tls_files& files) {
  struct {
    std::string& file;
    char const* option;
    char const* variable;
  } const all[] = {{files.certificate, "--tls-certificate", "RUBATO_TLS_CERTIFICATE"},
                   {files.key, "--tls-key", "RUBATO_TLS_KEY"},
                   {files.authority, "--tls-authority", "RUBATO_TLS_AUTHORITY"}};
  for (auto const& one : all) {
    char const* const named = std::getenv(one.variable);
    if (one.file.empty() && named != nullptr) one.file = named;
    if (one.file.empty())
      throw option_error(
          fmt::format("{} ({}) is not set, expected a file: TLS needs all three", one.option, one.variable));
  }
}

/// What launchers say. Files of TLS are left out where options name some: only with the others do they make sense.
net::deployment place_around(CLI::App const& app, texts& t) {
  bool const has_tls = !t.tls.certificate.empty() || !t.tls.key.empty() || !t.tls.authority.empty();
  if (has_tls) complete(t.tls);
  net::deployment place = place_in_environment(app);
  if (has_tls) place.keys.tls = t.tls;
  return place;
}

/// Those that CLI11 takes: what is not a number is in none of its ranges, and outside none.
void check_numbers(options const& o) {
  if (o.lambda && !(*o.lambda > 0 && std::isfinite(*o.lambda)))
    throw option_error(fmt::format("--lambda: {}, expected a finite number above 0", *o.lambda));
  check_seconds("--check-period", o.check_period);
  check_seconds("--epoch", o.epoch);
  check_seconds("--probe-period", o.probe_period);
  check_seconds("--interval", o.interval);
  if (std::isnan(o.gamma)) throw option_error("--gamma: nan, expected a number from 0 to 1");
}

void interpret(options& o, texts const& t) {
  if (!t.role.empty())
    o.place.as = t.role == "coordinator" ? net::role::coordinator : net::role::server;
  if (!t.coordinator.empty()) o.place.coordinator = net::address::parse(t.coordinator);
  if (!t.listen.empty()) o.place.listen = net::address::parse(t.listen);
  if (!t.metrics.empty())
    o.metrics = net::address::parse(
        t.metrics.find(':') == std::string::npos ? "127.0.0.1:" + t.metrics : t.metrics);
  if (!t.on_loss.empty())
    o.place.when_lost = t.on_loss == "end" ? net::on_loss::end : net::on_loss::go_on;
  if (!t.staleness.empty()) o.staleness = staleness_from(t.staleness);
  if (t.silence != 0) o.place.silence = milliseconds_of("--silence", t.silence);
  if (t.reconnect) o.place.reconnect = milliseconds_of("--reconnect", *t.reconnect);
  if (t.patience != 0) o.place.patience = milliseconds_of("--patience", t.patience);
  check_numbers(o);
  o.tables = tables_from(t.tables);
  if (t.log_format.empty()) return;
  o.place.logs = net::log_format_from(t.log_format);
  if (!o.place.logs) throw option_error("--log-format: \"" + t.log_format + "\", expected text, keyvalue or json");
}

/// A token from a file, as the environment would give it.
void read_token(options& o, std::string const& file) {
  if (file.empty()) return;
  auto const only = [&](std::string_view name) -> std::optional<std::string> {
    if (name == "RUBATO_TOKEN_FILE") return file;
    return std::nullopt;
  };
  try {
    o.place.keys.token = net::deployment::from_environment(only).keys.token;
  } catch (option_error const& e) {
    throw option_error(std::string("--token-file: ") + e.what());
  }
}

void check_table(options const& o, std::size_t i) {
  table_options const& t = o.tables[i];
  std::string const which = o.tables.size() == 1 ? "" : "table " + std::to_string(i) + ": ";
  if (o.protocol == "dyn_sgd" && t.merge == "protocol" && !t.is_versioned())
    throw option_error("--storage: " + which + t.storage +
                       " with --protocol dyn_sgd, expected multi_version or multi_version_sparse");
  if (t.type.starts_with("int") && t.merge != "sum" &&
      (t.merge != "protocol" || !protocol_of(o).merge.exact()))
    throw option_error("--merge: " + which + "a table of integers needs sum");
  if (t.rows == 0 && !t.is_sparse())
    throw option_error("--rows: " + which + "a dense table needs 1 or more");
}

void check(options const& o) {
  o.place.check();
  if (o.place.servers == 0)
    throw option_error("--servers (RUBATO_SERVERS) is 0, expected 1 or more: peers have no servers, and what "
                       "coordinates them is their own program");
  if (o.with_coordinator && o.place.as == net::role::coordinator)
    throw option_error("--with-coordinator: is for servers; this process is the coordinator");
  if (o.with_coordinator) {
    net::deployment coordinator = o.place;
    coordinator.as = net::role::coordinator;
    coordinator.rank = {};
    coordinator.check();
  }
  if (o.place.as == net::role::coordinator) return;  // without tables
  for (std::size_t i = 0; i < o.tables.size(); ++i) check_table(o, i);
}

constexpr char const* after_the_options =
    R"(Ends once all workers have left. Signals: SIGINT, SIGTERM and SIGHUP end it; SIGUSR1 and SIGUSR2, which launchers
pass on to all processes, mean nothing to it.

Environment; the option beside a variable wins, whatever the variable says:
  RUBATO_ROLE             --role; without it a process's number says what it is, and this program is never a worker
  RANK                    --rank; else OMPI_COMM_WORLD_RANK, else SLURM_PROCID
  WORLD_SIZE              --workers; else OMPI_COMM_WORLD_SIZE, else SLURM_NTASKS. Without RUBATO_ROLE all processes,
                          of which number 0 is the coordinator, the next are servers and all others workers. These
                          and their numbers count for nothing where they make it another than --role, --rank (of a
                          server), --with-coordinator or --workers do, as those of an earlier run or another job would
  RUBATO_SERVERS          --servers [1]
  RUBATO_COORDINATOR      --coordinator; else MASTER_ADDR and MASTER_PORT [127.0.0.1 and 29500; under Slurm the
                          first of SLURM_JOB_NODELIST, else of SLURM_NODELIST]
  RUBATO_LISTEN           --listen
  RUBATO_ANNOUNCE         where others reach this server, if not where it listens (no option)
  RUBATO_BEYOND_LOOPBACK  1: --beyond-loopback
  RUBATO_TOKEN_FILE       --token-file; or RUBATO_TOKEN, the secret itself
  RUBATO_PLACE_KEY        shows that who is started again is the same (no option)
  RUBATO_TLS_CERTIFICATE, RUBATO_TLS_KEY, RUBATO_TLS_AUTHORITY
                          --tls-certificate, --tls-key, --tls-authority
  RUBATO_ON_LOSS          --on-loss [end]
  RUBATO_SILENCE, RUBATO_RECONNECT, RUBATO_PATIENCE
                          --silence (the same for all processes), --reconnect, --patience, in seconds [5, 2, 60]
  RUBATO_BREAKS_MAX       --breaks-max [20]
  RUBATO_LONG_WAIT        seconds after which this server says who waits for whom; 0: never (no option) [60]
  RUBATO_CHECK_FINITE     1: --check-finite
  RUBATO_ROWS_MAX, RUBATO_BYTES_MAX
                          --rows-max, --bytes-max [0: no limit]
  RUBATO_SHARE_MEMORY     0: workers on this machine are sent what they could read in this process's memory (no option)
  RUBATO_BUSY_POLL        for how many microseconds this process looks for what comes before it sleeps, as long as it
                          mostly comes that soon (no option) [50]
  RUBATO_LOG_FORMAT       --log-format [text]

Exit code:
  0                       all workers have left, or a signal ended it while it served
  1                       the run failed: a process was lost, processes do not agree, or an address cannot be had
  2                       the options, or the variables, cannot be meant
  128 + N                 signal N ended it before it served)";

/// A coordinator does nothing with them, and nobody is to believe that it does. Launchers give all
/// roles one command, and say in the environment which is the coordinator.
void refuse_options_of_servers(CLI::App const& app) {
  for (auto const* name :
       {"--listen", "--storage", "--type", "--merge", "--rows", "--width", "--partition", "--update-codec",
        "--answer-codec", "--rows-max", "--bytes-max", "--check-finite"})
    if (app.count(name) != 0)
      throw option_error(std::string(name) + ": is for servers; this process is the coordinator");
}

/// Nobody is to believe that they do something.
void refuse_options_of_other_protocols(CLI::App const& app, std::string const& protocol) {
  using names = std::vector<std::string>;
  static std::pair<char const*, names> const all[] = {{"--staleness", {"ssp", "con_sgd", "dyn_sgd"}},
                                                      {"--lambda", {"con_sgd", "adsp"}},
                                                      {"--check-period", {"adsp"}},
                                                      {"--epoch", {"adsp"}},
                                                      {"--probe-period", {"adsp"}},
                                                      {"--first-rate", {"adsp"}},
                                                      {"--no-search", {"adsp"}},
                                                      {"--first-steps", {"ada_comm"}},
                                                      {"--interval", {"ada_comm"}},
                                                      {"--gamma", {"ada_comm"}}};
  for (auto const& [name, of] : all)
    if (app.count(name) != 0 && std::ranges::find(of, protocol) == of.end())
      throw option_error(
          fmt::format("{}: is of {}, expected none with --protocol {}", name, fmt::join(of, ", "), protocol));
}

}  // namespace

std::optional<options> parse(int argc, char const* const* argv, int& exit_code) {
  options o;
  texts t;
  CLI::App app{
      "Hosts tables over TCP for workers that only link the client, or coordinates a run.\n"
      "What launchers say in variables holds where an option is not given.\n"
      "A LIST has one value, or one for each table with commas between them, in the order in\n"
      "which the program gives its tables to the cluster: --storage dense,sparse --rows 1000,0.\n"
      "Tables with stores, partitions or merges of a program's own it hosts itself, when it is\n"
      "started with RUBATO_ROLE=server.",
      "rubato-server"};
  app.footer(after_the_options);
  app.set_version_flag("--version", "rubato-server " + std::to_string(version.major_number) + "." +
                                              std::to_string(version.minor_number) + "." +
                                              std::to_string(version.patch_number));
  add_place(app, o, t);
  add_limits(app, o.place.limits);
  add_protocol(app, o, t);
  add_tables(app, t);
  app.add_option("--metrics", t.metrics,
                 "answer on this loopback PORT: /metrics with counters in Prometheus's text format, /healthz, "
                 "and /readyz");
  app.add_option("--log-format", t.log_format, "of the log: text, keyvalue or json [text]");
  app.add_flag("--verbose", o.verbose, "log connections and membership");
  tools::refuse_empty_values(app);
  tools::check_whole_numbers(app);
  try {
    app.parse(argc, argv);
    o.place = place_around(app, t);
    app.parse(argc, argv);  // once more, for what wins over the environment
  } catch (CLI::ParseError const& e) {
    exit_code = app.exit(e);
    if (exit_code != 0) exit_code = 2;
    return std::nullopt;
  }
  interpret(o, t);
  if (t.role == "coordinator") refuse_options_of_servers(app);
  refuse_options_of_other_protocols(app, o.protocol);
  read_token(o, t.token_file);
  check(o);
  return o;
}

}  // namespace rubato::server_tool
