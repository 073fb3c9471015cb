// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "src/tools/launch/supervisor.hpp"

#include <fmt/core.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include "src/tools/launch/output.hpp"
#include "src/tools/launch/process.hpp"
#include "src/tools/launch/token.hpp"

namespace rubato::launch {
namespace {

namespace asio = boost::asio;
using net::role;

constexpr std::string_view coordinator_socket = "/coordinator";
constexpr std::size_t temporary_path_max =
    net::coordinator_path_max - std::string_view("/rubato-XXXXXX").size() - coordinator_socket.size();
static_assert(temporary_path_max == 53, "the help says how many");

// Only this user can enter it, so only this user's processes reach the coordinator's socket.
class private_directory {
 public:
  private_directory() {
    char const* const wished = std::getenv("TMPDIR");
    // With what is added here, and to the names of others beside it.
    bool const fits = wished != nullptr && *wished == '/' && std::strlen(wished) <= temporary_path_max;
    path_ = std::string(fits ? wished : "/tmp") + "/rubato-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) {
      throw std::system_error(errno, std::generic_category(),
                              fmt::format("cannot make the directory {}", path_));
    }
    ::inotify_add_watch(watch_, path_.c_str(), IN_CREATE);
  }
  private_directory(private_directory const&) = delete;
  private_directory& operator=(private_directory const&) = delete;
  ~private_directory() {
    ::close(watch_);
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] std::string const& path() const noexcept { return path_; }
  /// Whether nothing has ever been in it; false where the system does not tell.
  [[nodiscard]] bool is_untouched() const noexcept {
    pollfd events{.fd = watch_, .events = POLLIN, .revents = 0};
    return watch_ >= 0 && ::poll(&events, 1, 0) == 0;
  }

 private:
  std::string path_;
  int watch_ = ::inotify_init1(IN_CLOEXEC);
};

// This process's environment without what another run may have left there.
std::vector<std::string> inherited_environment() {
  constexpr std::string_view own[] = {
      "RUBATO_ROLE",  "RANK",           "WORLD_SIZE",  "RUBATO_SERVERS", "RUBATO_COORDINATOR",
      "RUBATO_TOKEN", "RUBATO_ON_LOSS", "MASTER_ADDR", "LOCAL_RANK",     "RUBATO_TOKEN_FILE",
      "RUBATO_LOG_FORMAT", "RUBATO_PLACE_KEY",
      "RUBATO_LISTEN", "RUBATO_ANNOUNCE",  // of one process, and never of several
  };
  std::vector<std::string> result;
  for (char** line = ::environ; *line != nullptr; ++line) {
    std::string_view const text = *line;
    auto const name = text.substr(0, text.find('='));
    if (std::find(std::begin(own), std::end(own), name) == std::end(own)) result.emplace_back(text);
  }
  return result;
}

std::string sentence_of(std::string_view sentence, net::log_format how,
                        net::log_level level = net::log_level::warning) {
  if (how == net::log_format::text) return fmt::format("rubato-launch: {}\n", sentence);
  return net::log_line(how, std::chrono::system_clock::now(), level, "rubato-launch", sentence);
}

std::string in_seconds(std::chrono::milliseconds time) {
  return fmt::format("{:g} s", static_cast<double>(time.count()) / 1000);
}

// One place in the run, whatever process has it.
struct member {
  role as = role::worker;
  std::uint32_t rank = 0;
  pid_t id = 0;
  bool running = false;
  std::uint32_t restarts = 0;
  std::string key = random_token();  // of the place, whatever process has it
  std::shared_ptr<forwarder> output = {};
  std::shared_ptr<forwarder> errors = {};

  [[nodiscard]] std::string name() const {
    if (as == role::coordinator) return net::to_string(as);
    return fmt::format("{} {}", net::to_string(as), rank);
  }
  [[nodiscard]] std::string text() const { return fmt::format("{} (pid {})", name(), id); }
};

class supervisor {
 public:
  explicit supervisor(options const& o)
      : options_(o), environment_(inherited_environment()), token_(random_token()) {
    catch_signals();
    if (!are_same(STDOUT_FILENO, STDERR_FILENO))
      errors_.emplace(io_, STDERR_FILENO, user_of("standard error"));
    directory_.emplace();  // not before, or a signal would leave it behind
  }

  int run() {
    start_all();
    if (options_.timeout.count() > 0) {
      limit_.expires_after(options_.timeout);
      limit_.async_wait([this](boost::system::error_code const& failure) {
        if (!failure) run_out_of_time();
      });
    }
    await_signal();
    look_each_second();
    stop_watching_if_over();
    io_.run();
    hold_signals_back();
    return exit_code_;
  }

 private:
  enum class phase {
    working,
    leaving,  // some have ended well, and the others end by themselves
    ending,   // all have been asked to end, and are killed if they do not
  };

  void catch_signals();
  static void hold_signals_back();
  void await_signal();
  void look_each_second();
  void on_signal(int number);

  void start_all();
  void start(member& m);
  [[nodiscard]] std::vector<std::string> environment_of(member const& m) const;

  void look_for_ends();
  void on_end(member& m, ending const& how);
  void on_worker_end(member& m, ending const& how);
  void on_helper_end(member const& m, ending const& how);
  [[nodiscard]] bool start_again(member& m);
  [[nodiscard]] bool workers_left() const;
  [[nodiscard]] bool helpers_left() const;
  void stop_watching_if_over();

  void say(std::string_view sentence, net::log_level level = net::log_level::warning) {
    // Nobody is left to be told if this fails.
    static_cast<void>(errors().add(sentence_of(sentence, options_.logs, level)));
  }
  [[nodiscard]] outlet& errors() { return errors_ ? *errors_ : output_; }
  [[nodiscard]] outlet::user user_of(std::string const& name);
  void give_up_readers_after_grace();
  void give_up_readers();
  void leave(int exit_code);
  void look_after_grace();
  void look_at_those_left();
  void end_those_that_stand_still();
  void end_without_helpers();
  [[nodiscard]] std::vector<member const*> busy_workers() const;
  void stop(int exit_code);
  void kill_after_grace();
  void run_out_of_time();
  void send_all(int signal);
  void say_if_verbose(std::string_view sentence) {
    if (options_.verbose) say(sentence, net::log_level::info);
  }

  options const& options_;
  std::vector<std::string> environment_;
  std::string token_;
  asio::io_context io_{1};
  asio::signal_set signals_{io_};
  asio::steady_timer grace_{io_};
  asio::steady_timer limit_{io_};
  asio::steady_timer readers_grace_{io_};
  asio::steady_timer next_look_{io_};
  outlet output_{io_, STDOUT_FILENO, user_of("standard output")};
  // Not where both go to the same place, such as a terminal: there they would mix lines.
  std::optional<outlet> errors_;
  bool waits_for_readers_ = true;
  bool readers_wait_ends_ = false;  // in time
  bool last_moment_ = false;
  std::optional<private_directory> directory_;
  std::vector<member> members_;  // workers first
  phase phase_ = phase::working;
  int exit_code_ = 0;
  int first_failure_ = 0;
  bool one_ended_well_ = false;
  std::string first_to_leave_;  // before the workers
  bool told_of_waiting_ = false;
};

void supervisor::catch_signals() {
  for (int const number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    struct sigaction now {};
    ::sigaction(number, nullptr, &now);
    // As with nohup, or in the background of a script.
    if (now.sa_handler != SIG_IGN) signals_.add(number);
  }
  signals_.add(SIGCHLD);
  // A write tells of a reader that is gone.
  ::signal(SIGPIPE, SIG_IGN);
}

// How the run has ended is known: one that comes before this process has ended would end it in its place, as they have
// their usual effect once signals_ is gone.
void supervisor::hold_signals_back() {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
}

void supervisor::await_signal() {
  signals_.async_wait([this](boost::system::error_code const& failure, int number) {
    if (failure) return;
    on_signal(number);
    await_signal();
  });
}

/// The signal that says that somebody has ended may not come: under the thread sanitizer it is missing once in a while.
void supervisor::look_each_second() {
  next_look_.expires_after(std::chrono::seconds(1));
  next_look_.async_wait([this](boost::system::error_code const& failure) {
    if (failure) return;
    look_for_ends();
    look_each_second();
  });
}

void supervisor::on_signal(int number) {
  if (number == SIGCHLD) return look_for_ends();
  if (number == SIGUSR1 || number == SIGUSR2) return send_all(number);
  if (phase_ == phase::ending && number == SIGINT) {
    say("killing all processes");
    send_all(SIGKILL);
    return give_up_readers();
  }
  send_all(number);
  give_up_readers_after_grace();
  if (phase_ == phase::ending) return;
  say(fmt::format("ending the run after signal {} ({})", number, ::strsignal(number)));
  phase_ = phase::ending;
  exit_code_ = 128 + number;
  kill_after_grace();
}

void supervisor::start_all() {
  for (std::uint32_t i = 0; i < options_.workers; ++i) members_.push_back({role::worker, i});
  for (std::uint32_t i = 0; i < options_.servers; ++i) members_.push_back({role::server, i});
  members_.push_back({role::coordinator, 0});
  try {
    // The others look for the coordinator and then for the servers.
    for (auto m = members_.rbegin(); m != members_.rend(); ++m) start(*m);
  } catch (start_error const& failure) {
    say(failure.what());
    stop(127);
  }
}

void supervisor::start(member& m) {
  auto const& command = m.as == role::worker ? options_.command : options_.server_command;
  process started = process::start(command, environment_of(m));
  m.id = started.id;
  m.running = true;
  auto const prefix = options_.prefix ? fmt::format("[{}] ", m.name()) : std::string();
  auto const nobody_reads = [this] { stop(128 + SIGPIPE); };
  m.output = std::make_shared<forwarder>(io_, std::move(started.output), output_, prefix,
                                         nobody_reads);
  m.errors = std::make_shared<forwarder>(io_, std::move(started.errors), errors(), prefix,
                                         nobody_reads);
  m.output->start();
  m.errors->start();
  say_if_verbose(fmt::format("{} started: {}", m.text(), fmt::join(command, " ")));
}

std::vector<std::string> supervisor::environment_of(member const& m) const {
  auto result = environment_;
  auto const set = [&](std::string_view name, auto const& value) {
    result.push_back(fmt::format("{}={}", name, value));
  };
  set("RUBATO_ROLE", net::to_string(m.as));
  set("RANK", m.rank);
  if (m.as == role::worker) set("LOCAL_RANK", m.rank);
  set("WORLD_SIZE", options_.workers);
  set("RUBATO_SERVERS", options_.servers);
  set("RUBATO_COORDINATOR", fmt::format("unix:{}{}", directory_->path(), coordinator_socket));
  set("RUBATO_TOKEN", token_);
  set("RUBATO_PLACE_KEY", m.key);
  set("RUBATO_ON_LOSS", options_.when_lost == net::on_loss::end ? "end" : "go-on");
  set("RUBATO_LOG_FORMAT", net::to_string(options_.logs));
  set("MASTER_ADDR", "127.0.0.1");
  return result;
}

void supervisor::look_for_ends() {
  for (auto& m : members_) {
    if (!m.running) continue;
    auto const how = end_of(m.id);
    if (!how) continue;
    m.running = false;
    // What it said last stands before what is said about it.
    m.output->finish();
    m.errors->finish();
    on_end(m, *how);
  }
  stop_watching_if_over();
}

void supervisor::on_end(member& m, ending const& how) {
  if (how.well() || phase_ == phase::ending) {
    say_if_verbose(fmt::format("{} {}", m.text(), how.text()));
  } else {
    say(fmt::format("{} {}", m.text(), how.text()));
  }
  if (phase_ == phase::ending) return;
  if (m.as == role::worker) {
    on_worker_end(m, how);
  } else {
    on_helper_end(m, how);
  }
}

void supervisor::on_worker_end(member& m, ending const& how) {
  if (how.well()) {
    one_ended_well_ = true;
  } else {
    if (options_.when_lost == net::on_loss::end) return stop(how.exit_code());
    if (first_failure_ == 0) first_failure_ = how.exit_code();
    if (start_again(m)) return;
  }
  if (workers_left() || phase_ == phase::ending) return;
  if (one_ended_well_ && directory_->is_untouched())  // where a coordinator listens
    say(fmt::format("no process of '{}' has taken part in a run: each did all of its work by itself; expected one that "
                    "trains over rubato::tcp::from_environment()",
                    options_.command.front()));
  limit_.cancel();
  leave(one_ended_well_ ? 0 : first_failure_);
}

void supervisor::on_helper_end(member const& m, ending const& how) {
  if (!workers_left()) return;
  if (!how.well()) return stop(how.exit_code());
  // Once the last worker has said goodbye, its process may take longer to end than this one: it may evaluate, or save.
  if (phase_ != phase::working) return;
  first_to_leave_ = m.text();
  leave(first_failure_ != 0 ? first_failure_ : 1);
}

bool supervisor::start_again(member& m) {
  // Once a worker has ended well, there may be no run any more that another could join.
  if (phase_ != phase::working || one_ended_well_ || m.restarts == options_.restarts) return false;
  ++m.restarts;
  try {
    start(m);
    say(fmt::format("{} takes its place ({} of {} restarts)", m.text(), m.restarts,
                    options_.restarts));
    return true;
  } catch (start_error const& failure) {
    say(failure.what());
    stop(127);
    return false;
  }
}

bool supervisor::workers_left() const {
  return std::any_of(members_.begin(), members_.end(),
                     [](member const& m) { return m.running && m.as == role::worker; });
}

bool supervisor::helpers_left() const {
  return std::any_of(members_.begin(), members_.end(),
                     [](member const& m) { return m.running && m.as != role::worker; });
}

void supervisor::stop_watching_if_over() {
  if (std::any_of(members_.begin(), members_.end(), [](member const& m) { return m.running; })) return;
  if (output_.is_empty() && errors().is_empty()) return io_.stop();
  if (waits_for_readers_ || std::exchange(last_moment_, true)) return;
  // Whoever reads has not had the time for what was said last.
  readers_grace_.expires_after(std::chrono::milliseconds(500));
  readers_grace_.async_wait([this](boost::system::error_code const&) { io_.stop(); });
}

outlet::user supervisor::user_of(std::string const& name) {
  return {.nobody_reads = [this] { stop(128 + SIGPIPE); },
          .failed =
              [this, name](std::string const& why) {
                say(fmt::format("cannot write to {}: {}; the run goes on, and lines are lost", name,
                                why));
              },
          .emptied = [this] { stop_watching_if_over(); }};
}

// Once somebody wants the end, it does not take longer for want of a reader.
void supervisor::give_up_readers_after_grace() {
  if (readers_wait_ends_) return;
  readers_wait_ends_ = true;
  readers_grace_.expires_after(options_.grace);
  readers_grace_.async_wait([this](boost::system::error_code const& failure) {
    if (!failure) give_up_readers();
  });
}

void supervisor::give_up_readers() {
  waits_for_readers_ = false;
  stop_watching_if_over();
}

void supervisor::leave(int exit_code) {
  phase_ = phase::leaving;
  exit_code_ = exit_code;
  grace_.expires_after(options_.grace);
  look_after_grace();
}

void supervisor::look_after_grace() {
  grace_.async_wait([this](boost::system::error_code const& failure) {
    if (!failure && phase_ == phase::leaving) look_at_those_left();
  });
}

// Helpers that ended well have seen the run to its end: a worker that is busy afterwards may be writing its results,
// and one that came too late gives up by itself. But where no coordinator has ever listened, workers may wait for one.
void supervisor::look_at_those_left() {
  if (!workers_left()) return stop(exit_code_);
  auto const busy = busy_workers();
  if (busy.empty()) return end_those_that_stand_still();
  if (helpers_left() && directory_->is_untouched()) return end_without_helpers();
  if (!std::exchange(told_of_waiting_, true)) {
    for (member const* m : busy)
      say(fmt::format("{} goes on after {} has ended, and is waited for", m->text(), first_to_leave_));
  }
  grace_.expires_after(std::max<std::chrono::milliseconds>(options_.grace, std::chrono::seconds(1)));
  look_after_grace();
}

void supervisor::end_without_helpers() {
  say(first_to_leave_ + " ended before the workers did");
  stop(exit_code_);
}

// Where a run goes on without who is lost, servers end when the others are done: a process that stands still has no
// part in that.
void supervisor::end_those_that_stand_still() {
  bool const is_complete = one_ended_well_ && options_.when_lost == net::on_loss::go_on;
  if (!is_complete) return end_without_helpers();
  for (member const& m : members_)
    if (m.running && m.as == role::worker)
      say(fmt::format("{} stands still; the run is complete without it, and it is ended now", m.text()));
  stop(0);
}

std::vector<member const*> supervisor::busy_workers() const {
  std::vector<member const*> result;
  for (member const& m : members_)
    if (m.running && m.as == role::worker && !is_stopped(m.id)) result.push_back(&m);
  return result;
}

void supervisor::stop(int exit_code) {
  if (phase_ == phase::ending) return;
  phase_ = phase::ending;
  exit_code_ = exit_code;
  say_if_verbose("asking all processes to end");
  send_all(SIGTERM);
  send_all(SIGCONT);  // or one that stands still would not hear of it
  kill_after_grace();
}

void supervisor::kill_after_grace() {
  limit_.cancel();
  grace_.expires_after(options_.grace);
  grace_.async_wait([this](boost::system::error_code const& failure) {
    if (failure) return;
    say_if_verbose("killing all processes that have not ended");
    send_all(SIGKILL);
  });
}

void supervisor::run_out_of_time() {
  // The timer's handler may have been on its way already when the run came to its end.
  if (phase_ == phase::ending || !workers_left()) return;
  say(fmt::format("the run has not ended within {}", in_seconds(options_.timeout)));
  constexpr int as_of_timeout = 124;  // the command of that name
  stop(as_of_timeout);
  give_up_readers_after_grace();
}

void supervisor::send_all(int signal) {
  for (auto const& m : members_) {
    if (m.running) send(m.id, signal);
  }
}

}  // namespace

int supervise(options const& o) { return supervisor(o).run(); }

void say(std::string_view sentence, net::log_format how) {
  // Nobody is left to be told if this fails.
  static_cast<void>(std::fputs(sentence_of(sentence, how).c_str(), stderr));
}

}  // namespace rubato::launch
