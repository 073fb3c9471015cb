// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "src/tools/launch/options.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <ostream>
#include <utility>

#include "rubato/core/error.hpp"
#include "src/tools/empty_values.hpp"
#include "src/tools/whole_numbers.hpp"

namespace rubato::launch {
namespace {

// CLI11 does not know of the command, so it cannot tell of it.
class help_formatter : public CLI::Formatter {
 public:
  std::string make_usage(CLI::App const*, std::string) const override {
    return "Usage: rubato-launch -n WORKERS -s SERVERS [OPTIONS] -- COMMAND [ARGUMENTS...]\n";
  }
};

constexpr char const* after_the_options =
    R"(Processes find their places in the environment: RUBATO_ROLE, RANK, WORLD_SIZE (workers), LOCAL_RANK (of
workers), RUBATO_SERVERS, RUBATO_COORDINATOR, RUBATO_TOKEN, RUBATO_PLACE_KEY, RUBATO_ON_LOSS,
RUBATO_LOG_FORMAT and MASTER_ADDR are set here; what else rubato-launch was started with reaches them
unchanged, such as RUBATO_SILENCE, RUBATO_RECONNECT and RUBATO_PATIENCE (see rubato-server --help), but for
RUBATO_LISTEN and RUBATO_ANNOUNCE, which say where one process is.

Signals: SIGINT, SIGTERM, SIGHUP and SIGQUIT end the run, a second SIGINT at once; SIGUSR1 and SIGUSR2 are
passed on. Where rubato-launch itself is killed (SIGKILL), the system kills its processes, but not those that they have
started: a script as COMMAND had better end with exec ./train.

Workers may take their time after a run, such as to save a model: once servers and the coordinator have ended
well, those that are busy are waited for, up to --timeout, and those that stand still are ended after --grace.

Environment:
  RUBATO_ON_LOSS  end or go-on, where --on-loss is not given
  RUBATO_LOG_FORMAT
                  text, keyvalue or json, where --log-format is not given: how lines of rubato-launch are
                  written, and of Rubato in the processes, which are passed on behind their prefix, as are
                  the program's own (--no-prefix leaves it out)
  TMPDIR          folder in which the coordinator's socket is put, and others beside it [/tmp, which is taken also
                  where it is relative, or longer than the names of sockets leave room for: 53 characters]

Exit code:
  0        every worker ended well; with go-on one at least, and the servers with it: a worker that was lost,
           or stands still (SIGSTOP) when the others are done, changes nothing (it is ended, which is said).
           Also where none took part in a run, of which rubato-launch warns
  that of  the process that failed (128 + N where signal N ended it): the first worker, unless the run went on
           and was completed without it; or a server or the coordinator while workers were left
  1        a server or the coordinator ended before any coordinator listened, or while the only workers left
           stand still and the run is not complete without them; or the run could not be looked after
  2        the options cannot be meant
  124      the run took longer than --timeout
  127      a process could not be started
  128 + N  this process was asked to end by signal N, or (N = 13) nobody reads what it writes any more)";

// As written on the command line.
struct given_options {
  options result = {};
  std::string server_command = {};
  std::string when_lost = "end";
  std::string log_format = "text";
  double grace = 5;
  double timeout = 0;
  bool no_prefix = false;
};

void add_options(CLI::App& app, given_options& o) {
  // What a user adds to a script's own options wins over them.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("-n,--workers", o.result.workers, "worker processes")->required();
  app.add_option("-s,--servers", o.result.servers, "server processes; 0 for peers, which have none")
      ->capture_default_str();
  app.add_option("--server-command", o.server_command,
                 "what servers and the coordinator run instead of COMMAND: words in one argument, "
                 "quoted with ' or \" where they hold spaces");
  app.add_option("--on-loss", o.when_lost,
                 "of a worker: the run ends (end) or goes on (go-on); of a peer also its protocol has to let it")
      ->envname("RUBATO_ON_LOSS")
      ->capture_default_str();
  app.add_option("--restart", o.result.restarts,
                 "start a worker that ends with an error again, up to so many times; with go-on")
      ->capture_default_str();
  app.add_option("--grace", o.grace, "seconds between asking a process to end and killing it")
      ->capture_default_str();
  app.add_option("--timeout", o.timeout, "seconds after which the run is ended; 0: never")
      ->capture_default_str();
  app.add_flag("--no-prefix", o.no_prefix, "pass lines on without [worker 0] before them");
  app.add_option("--log-format", o.log_format, "of lines of rubato-launch and Rubato: text, keyvalue or json")
      ->envname("RUBATO_LOG_FORMAT")
      ->capture_default_str();
  app.add_flag("--verbose", o.result.verbose, "say when each process starts and ends");
}

void require_count(std::string_view option, std::uint32_t value, std::uint32_t least) {
  constexpr std::uint32_t most = 10000;
  if (value >= least && value <= most) return;
  throw option_error(fmt::format("{} must be from {} to {}, but is {}", option, least, most, value));
}

std::chrono::milliseconds duration(std::string_view option, double seconds) {
  constexpr double most = 1e8;
  if (!(seconds >= 0 && seconds <= most)) {
    throw option_error(
        fmt::format("{} must be from 0 to {:.0f} seconds, but is {}", option, most, seconds));
  }
  auto const rounded = static_cast<std::int64_t>(seconds * 1000 + 0.5);
  return std::chrono::milliseconds(seconds > 0 ? std::max<std::int64_t>(rounded, 1) : 0);  // 0 means never
}

options interpret(given_options const& given) {
  options o = given.result;
  require_count("--workers", o.workers, 1);
  require_count("--servers", o.servers, 0);
  if (given.when_lost != "end" && given.when_lost != "go-on") {
    throw option_error(fmt::format(
        "--on-loss (or RUBATO_ON_LOSS) must be end or go-on, but is '{}'", given.when_lost));
  }
  o.when_lost = given.when_lost == "end" ? net::on_loss::end : net::on_loss::go_on;
  if (o.restarts > 0 && o.when_lost != net::on_loss::go_on) {
    throw option_error(
        fmt::format("--restart must be 0 without --on-loss go-on, but is {}", o.restarts));
  }
  o.grace = duration("--grace", given.grace);
  o.timeout = duration("--timeout", given.timeout);
  o.prefix = !given.no_prefix;
  auto const logs = net::log_format_from(given.log_format);
  if (!logs) {
    throw option_error(fmt::format("--log-format (or RUBATO_LOG_FORMAT) must be text, keyvalue or json, but is '{}'",
                                   given.log_format));
  }
  o.logs = *logs;
  return o;
}

void require_command(options& o, std::vector<std::string> const& misplaced) {
  if (!misplaced.empty()) {
    throw option_error(
        fmt::format("'{}' is not an option; the command must follow --", misplaced.front()));
  }
  if (o.command.empty() || o.command.front().empty()) {
    throw option_error("a command must follow --, such as rubato-launch -n 4 -- ./train");
  }
}

}  // namespace

std::optional<options> parse(int argc, char const* const* argv, std::ostream& out) {
  // The command goes past CLI11, which gives a meaning to some arguments wherever they stand.
  auto const* const end = argv + argc;
  auto const* const dashes = std::find(argv + 1, end, std::string_view("--"));
  given_options given;
  CLI::App app("Starts a coordinator, servers and workers on this machine and looks after them.",
               "rubato-launch");
  app.formatter(std::make_shared<help_formatter>());
  app.footer(after_the_options);
  app.allow_extras();
  add_options(app, given);
  tools::refuse_empty_values(app);
  tools::check_whole_numbers(app);
  try {
    app.parse(static_cast<int>(dashes - argv), argv);
  } catch (CLI::CallForHelp const&) {
    out << app.help();
    return std::nullopt;
  } catch (CLI::ParseError const& bad) {
    throw option_error(bad.what());
  }
  options result = interpret(given);
  if (dashes != end) result.command.assign(dashes + 1, end);
  require_command(result, app.remaining());
  result.server_command = words_of(given.server_command);
  if (result.server_command.empty() && !given.server_command.empty())
    throw option_error("--server-command is blank, expected a program and its arguments");
  if (result.server_command.empty()) result.server_command = result.command;
  return result;
}

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  bool inside = false;  // of a word, for '' is one, too
  char quote = '\0';
  for (char const letter : line) {
    if (quote == '\0' && letter == ' ') {
      inside = false;
      continue;
    }
    if (!std::exchange(inside, true)) words.emplace_back();
    if (letter == quote) {
      quote = '\0';
    } else if (quote == '\0' && (letter == '\'' || letter == '"')) {
      quote = letter;
    } else {
      words.back() += letter;
    }
  }
  if (quote == '\0') return words;
  throw option_error(fmt::format("--server-command must close its {}, but is: {}", quote, line));
}

}  // namespace rubato::launch
