// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
//
// rubato-server: hosts tables for workers of other processes, or coordinates them.
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/net/log.hpp"
#include "src/tools/server/companion.hpp"
#include "src/tools/server/host.hpp"
#include "src/tools/server/metrics.hpp"
#include "src/tools/standard_output.hpp"

namespace {

using rubato::server_tool::companion;
using rubato::server_tool::options;
using rubato::server_tool::watched;

/// The signals that ask a process to end. Made before any thread, so that all of them leave these
/// to whoever watches. Launchers pass SIGUSR1 and SIGUSR2 on to every process and mean the workers.
class ending {
 public:
  /// While one lives, nobody watches yet, and these signals end the process as they would any other.
  class at_once {
   public:
    explicit at_once(ending const& of) : asked_(of.asked()) {
      sigdelset(&asked_, SIGUSR1);
      pthread_sigmask(SIG_UNBLOCK, &asked_, nullptr);
    }
    ~at_once() { pthread_sigmask(SIG_BLOCK, &asked_, nullptr); }
    at_once(at_once const&) = delete;
    at_once& operator=(at_once const&) = delete;

   private:
    sigset_t asked_;
  };

  ending() {
    sigemptyset(&asked_);
    for (int const s : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&asked_, s);
    // Under nohup it is ignored, but would be taken all the same.
    if (!is_ignored(SIGHUP)) sigaddset(&asked_, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &asked_, nullptr);
    for (int const s : {SIGPIPE, SIGUSR2}) signal(s, SIG_IGN);
  }
  [[nodiscard]] sigset_t const& asked() const noexcept { return asked_; }

 private:
  static bool is_ignored(int s) {
    struct sigaction now {};
    sigaction(s, nullptr, &now);
    return now.sa_handler == SIG_IGN;
  }

  sigset_t asked_{};
};

/// Calls `stop` when such a signal comes, for as long as it lives. SIGUSR1 is how it wakes its
/// thread to end it; from anybody else it means nothing.
class watch {
 public:
  watch(ending const& of, std::function<void()> stop)
      : waiter_([this, asked = of.asked(), stop = std::move(stop)] {
          for (int which = SIGUSR1; !over_;) {
            sigwait(&asked, &which);
            if (which != SIGUSR1) stop();  // each time: it may have been stopping for other reasons
          }
        }) {}
  ~watch() {
    over_ = true;
    pthread_kill(waiter_.native_handle(), SIGUSR1);
    waiter_.join();
  }
  watch(watch const&) = delete;
  watch& operator=(watch const&) = delete;

 private:
  std::atomic<bool> over_ = false;
  std::thread waiter_;  // last: it reads the other
};

/// To stderr, in one call. That it cannot be written, as on a full disk, is no reason to end.
void say(std::string const& line) { std::fwrite(line.data(), 1, line.size(), stderr); }

void log_to_stderr(options const& o) {
  rubato::net::set_log([verbose = o.verbose, how = o.logs()](rubato::net::log_level level, std::string_view line) {
    if (level == rubato::net::log_level::info && !verbose) return;
    say(rubato::net::log_line(how, std::chrono::system_clock::now(), level, "rubato-server", line));
  });
}

/// Why this process ends; before its options are known as text.
void say_why(std::optional<options> const& o, std::string_view why) {
  if (!o || o->logs() == rubato::net::log_format::text) return say(fmt::format("rubato-server: {}\n", why));
  say(rubato::net::log_line(o->logs(), std::chrono::system_clock::now(), rubato::net::log_level::warning,
                            "rubato-server", why));
}

rubato::blueprint plan_of(options const& o, ending const& end) {
  ending::at_once const unwatched(end);
  return rubato::server_tool::blueprint_of(o);
}

void serve(options const& o, ending const& end) {
  rubato::blueprint plan = plan_of(o, end);
  rubato::coordinator_stats coordinating;
  std::optional<companion> coordinator;
  if (o.with_coordinator)
    coordinator.emplace([&, agreed = plan.agreement()](auto const& started) {
      rubato::server_tool::coordinate(o, started, coordinating, agreed);
    });
  std::optional<ending::at_once> unwatched;
  // Which of its numbers others reach, the system may tell late, where DNS does not answer. A socket's file would stay.
  if (!o.place.listening().is_unix()) unwatched.emplace(end);
  rubato::server_tool::host host(o, std::move(plan));
  unwatched.reset();
  std::optional<rubato::server_tool::metrics_page> page;
  if (o.metrics) page.emplace(*o.metrics, watched{&host.stats(), o.with_coordinator ? &coordinating : nullptr});
  fmt::print("listening on {}", host.bound().text());
  if (o.with_coordinator) fmt::print(", and coordinating on {}, which workers are to know", o.place.coordinator.text());
  fmt::print("\n");
  if (page) fmt::print("metrics on http://{}/metrics\n", page->bound().text());
  std::fflush(stdout);
  watch const signals(end, [&] { stop_both(coordinator ? &*coordinator : nullptr, host); });
  host.run();
  if (coordinator) coordinator->finish();
}

void coordinate_alone(options const& o, ending const& end) {
  rubato::coordinator_stats counted;
  std::optional<rubato::server_tool::metrics_page> page;
  if (o.metrics) {
    page.emplace(*o.metrics, watched{nullptr, &counted});
    fmt::print("metrics on http://{}/metrics\n", page->bound().text());
    std::fflush(stdout);
  }
  rubato::server_tool::coordinate(
      o, [&](auto stop) { return std::make_shared<watch>(end, std::move(stop)); }, counted);
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<options> o;
  try {
    int exit_code = 0;
    o = rubato::server_tool::parse(argc, argv, exit_code);
    if (!o) {
      if (exit_code == 0) rubato::tools::flush_output();
      return exit_code;
    }
    ending const end;
    log_to_stderr(*o);
    if (o->place.as == rubato::net::role::coordinator) coordinate_alone(*o, end);
    else serve(*o, end);
  } catch (rubato::option_error const& e) {
    say_why(o, e.what());
    return 2;
  } catch (std::exception const& e) {
    say_why(o, e.what());
    return 1;
  }
}
