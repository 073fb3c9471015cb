// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Of the program that RUBATO_LAUNCH_PROGRAM names, with shell scripts for workers and servers. They
// say by files in $S, a directory of the test's own, how far they are.
#include <rubato/core/error.hpp>

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "asleep.hpp"
#include "patience.hpp"
#include "seeds.hpp"
#include "src/tools/launch/options.hpp"
#include "src/tools/launch/output.hpp"
#include "src/tools/launch/process.hpp"

using namespace rubato;
using namespace std::chrono_literals;
using Catch::Contains;

namespace {

using words = std::vector<std::string>;

std::string content_of(std::filesystem::path const& file) {
  std::ostringstream all;
  all << std::ifstream(file, std::ios::binary).rdbuf();
  return all.str();
}

words lines_of(std::string const& text) {
  words result;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) result.push_back(line);
  return result;
}

words sorted(words lines) {
  std::sort(lines.begin(), lines.end());
  return lines;
}

bool matches(std::string const& text, std::string const& pattern) {
  return std::regex_match(text, std::regex(pattern));
}

bool comes_true(std::function<bool()> const& what) {
  auto const deadline = std::chrono::steady_clock::now() + test::patience;
  while (!what()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

// A process that nobody waits for, as in some containers, has ended all the same.
bool gone(std::string const& id) {
  auto const stat = content_of("/proc/" + id + "/stat");
  auto const name_end = stat.rfind(')');
  return name_end == std::string::npos || stat.compare(name_end, 3, ") Z") == 0;
}

struct outcome {
  int exit_code;  // 128 and more: killed by a signal
  std::string output;
  std::string errors;
};

// One call of rubato-launch.
class launched {
 public:
  explicit launched(words const& arguments, int output = -1, int errors = -1) {
    std::string name = (std::filesystem::temp_directory_path() / "launch-test-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    scratch_ = name;
    words all{RUBATO_LAUNCH_PROGRAM};
    all.insert(all.end(), arguments.begin(), arguments.end());
    words variables = environment();
    std::vector<char*> const command = pointers_to(all), environment = pointers_to(variables);
    std::string const output_file = scratch_ / "output", errors_file = scratch_ / "errors";
    id_ = ::fork();
    // From here to exec the child may not allocate: threads that it lacks may have held the locks.
    if (id_ == 0) {
      become(command.data(), environment.data(), output >= 0 ? output : opened(output_file.c_str()),
             errors >= 0 ? errors : opened(errors_file.c_str()));
    }
    REQUIRE(id_ > 0);
  }
  launched(launched const&) = delete;
  launched& operator=(launched const&) = delete;
  ~launched() {
    if (id_ > 0) {
      ::kill(id_, SIGKILL);
      ::waitpid(id_, nullptr, 0);
    }
    std::error_code ignored;
    std::filesystem::remove_all(scratch_, ignored);
  }

  template <class F>
  [[nodiscard]] outcome wait(F meanwhile) {
    int status = 0;
    bool const ended = comes_true([&] {
      meanwhile();
      send_again();
      return ::waitpid(id_, &status, WNOHANG) == id_;
    });
    if (!ended) FAIL("still there: " << family());
    id_ = 0;
    int const code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return {code, content_of(scratch_ / "output"), content_of(scratch_ / "errors")};
  }
  [[nodiscard]] outcome wait() {
    return wait([] {});
  }

  void make_file(std::string const& name) const { std::ofstream(scratch_ / name) << "\n"; }
  void send(int signal) {
    REQUIRE(::kill(id_, signal) == 0);
    sent_ = {signal, std::chrono::steady_clock::now()};
  }

  [[nodiscard]] std::string file(std::string const& name) const {
    return content_of(scratch_ / name);
  }
  void await_file(std::string const& name) {
    CAPTURE(name, file("errors"));
    REQUIRE(comes_true([&] {
      send_again();
      return file(name).find('\n') != std::string::npos;
    }));
  }
  void await_error(std::string const& text) {
    CAPTURE(text, file("errors"));
    REQUIRE(comes_true([&] {
      send_again();
      return file("errors").find(text) != std::string::npos;
    }));
  }
  // It and all that it has started wait for somebody else.
  void await_standstill() const {
    REQUIRE(comes_true([&] { return test::all_slept([&] { return test::family_of(id_); }); }));
  }

 private:
  /// Under the thread sanitizer a signal is missing once in a while: what has had no effect for so long is sent again.
  void send_again() {
    if (test::sanitized() && id_ > 0 && sent_ && std::chrono::steady_clock::now() - sent_->at > 10s) send(sent_->signal);
  }

  static std::vector<char*> pointers_to(words& lines) {
    std::vector<char*> pointers;
    for (auto& line : lines) pointers.push_back(line.data());
    pointers.push_back(nullptr);
    return pointers;
  }
  static int opened(char const* file) { return ::open(file, O_WRONLY | O_CREAT | O_APPEND, 0600); }
  [[noreturn]] static void become(char* const* command, char* const* environment, int output,
                                  int errors) {
    ::dup2(output, STDOUT_FILENO);
    ::dup2(errors, STDERR_FILENO);
    // Whatever runs the tests may ignore some.
    for (int const number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE}) {
      ::signal(number, SIG_DFL);
    }
    ::execve(command[0], command, environment);
    ::_exit(99);
  }

  // That of the tests, but for its own.
  [[nodiscard]] words environment() const {
    words lines{
        "S=" + scratch_.string(),
        "TMPDIR=" + scratch_.string()};  // a launcher that is killed leaves a directory behind
    for (char** line = ::environ; *line != nullptr; ++line) {
      std::string const text = *line;
      if (!text.starts_with("S=") && !text.starts_with("TMPDIR=") &&
          !text.starts_with("RUBATO_ON_LOSS="))
        lines.push_back(text);
    }
    return lines;
  }

  // What each process of it does, in the system's words.
  [[nodiscard]] std::string family() const {
    std::string all;
    for (pid_t const id : test::family_of(id_)) {
      auto const of = "/proc/" + std::to_string(id);
      all += "\n" + std::to_string(id) + " " + content_of(of + "/cmdline");
      for (auto const& [thread, folder] : test::threads_of(id))
        all +=
            "\n  " + test::thread_status(folder)["State"] + " in " + content_of(folder / "syscall");
    }
    std::replace(all.begin(), all.end(), '\0', ' ');
    return all;
  }

  std::filesystem::path scratch_;
  pid_t id_ = 0;
  struct sent_signal {
    int signal;
    std::chrono::steady_clock::time_point at;
  };
  std::optional<sent_signal> sent_;
};

// What a launcher writes to, of a kind that may hold it up, and that nobody reads until a test
// does.
class stalled_reader {
 public:
  explicit stalled_reader(std::string const& kind) {
    std::array<int, 2> ends{};
    if (kind == "pipe") {
      REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    } else if (kind == "socket") {
      REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    } else {
      REQUIRE(::openpty(&ends[0], &ends[1], nullptr, nullptr, nullptr) == 0);
      termios raw{};
      ::tcgetattr(ends[1], &raw);
      ::cfmakeraw(&raw);
      ::tcsetattr(ends[1], TCSANOW, &raw);
      for (int const end : ends) ::fcntl(end, F_SETFD, FD_CLOEXEC);
    }
    read_ = ends[0];
    write_ = ends[1];
    ::fcntl(read_, F_SETFL, ::fcntl(read_, F_GETFL) | O_NONBLOCK);
  }
  stalled_reader(stalled_reader const&) = delete;
  stalled_reader& operator=(stalled_reader const&) = delete;
  ~stalled_reader() {
    ::close(read_);
    ::close(write_);
  }

  [[nodiscard]] int end() const noexcept { return write_; }
  void await_full() const {
    REQUIRE(comes_true([&] {
      pollfd room{.fd = write_, .events = POLLOUT, .revents = 0};
      return ::poll(&room, 1, 0) == 0;
    }));
  }
  /// What there is now.
  std::string const& read() {
    std::array<char, 65536> some;
    for (ssize_t got = 1; got > 0;) {
      got = ::read(read_, some.data(), some.size());
      if (got > 0) all_.append(some.data(), static_cast<std::size_t>(got));
    }
    return all_;
  }

 private:
  int read_ = -1;
  int write_ = -1;
  std::string all_;
};

constexpr auto* idle = "sleep 1000";
// As a coordinator does, which listens there.
constexpr auto* takes_part = ": > ${RUBATO_COORDINATOR#unix:}; ";

// Workers that run `script` beside servers that wait to be ended.
words shell(std::string const& script, words const& options = {}) {
  words all{"-n", "2", "--grace", "0.1", "--server-command", idle};
  all.insert(all.end(), options.begin(), options.end());
  all.insert(all.end(), {"--", "sh", "-c", script});
  return all;
}

outcome run(words const& arguments) { return launched(arguments).wait(); }
outcome run_shell(std::string const& script, words const& options = {}) {
  return run(shell(script, options));
}

}  // namespace

TEST_CASE("each process has its environment", "[tools][launch]") {
  std::string const script =
      "echo $RUBATO_ROLE rank=$RANK of=$WORLD_SIZE servers=$RUBATO_SERVERS loss=$RUBATO_ON_LOSS "
      "local=$LOCAL_RANK at=$MASTER_ADDR";
  ::setenv("LOCAL_RANK", "77", 1);
  auto const result =
      run({"-n", "3", "-s", "2", "--on-loss", "go-on", "--grace", "30", "--", "sh", "-c", script});
  ::unsetenv("LOCAL_RANK");
  CHECK(result.exit_code == 0);
  CHECK(result.errors == "rubato-launch: no process of 'sh' has taken part in a run: each did all of its work by "
                         "itself; expected one that trains over rubato::tcp::from_environment()\n");
  std::string const start = " of=3 servers=2 loss=go-on local=";
  std::string const end = " at=127.0.0.1";
  CHECK(sorted(lines_of(result.output)) == words{"[coordinator] coordinator rank=0" + start + end,
                                                 "[server 0] server rank=0" + start + end,
                                                 "[server 1] server rank=1" + start + end,
                                                 "[worker 0] worker rank=0" + start + "0" + end,
                                                 "[worker 1] worker rank=1" + start + "1" + end,
                                                 "[worker 2] worker rank=2" + start + "2" + end});
}

TEST_CASE("peers are started without servers", "[tools][launch]") {
  auto const result =
      run({"-n", "2", "-s", "0", "--grace", "30", "--", "sh", "-c",
           takes_part + std::string("echo $RUBATO_ROLE $RANK of $WORLD_SIZE, $RUBATO_SERVERS servers")});
  CHECK(result.exit_code == 0);
  CHECK(sorted(lines_of(result.output)) == words{"[coordinator] coordinator 0 of 2, 0 servers",
                                                 "[worker 0] worker 0 of 2, 0 servers",
                                                 "[worker 1] worker 1 of 2, 0 servers"});
}

TEST_CASE("all processes of a run, and no others, share a token", "[tools][launch]") {
  std::string const script = "echo $RUBATO_TOKEN$RUBATO_TOKEN_FILE";
  ::setenv("RUBATO_TOKEN_FILE", "/of/another/run", 1);
  std::set<std::string> tokens;
  for (int i = 0; i < 2; ++i) {
    auto const result = run({"-n", "2", "--no-prefix", "--grace", "30", "--", "sh", "-c", script});
    auto const lines = lines_of(result.output);
    CHECK(lines.size() == 4);
    tokens.insert(lines.begin(), lines.end());
  }
  ::unsetenv("RUBATO_TOKEN_FILE");
  CHECK(tokens.size() == 2);
  for (auto const& token : tokens) CHECK(matches(token, "[0-9a-f]{64}"));
}

TEST_CASE("each place of a run has a key of its own, whatever process has it", "[tools][launch]") {
  std::string const script = "echo $RUBATO_PLACE_KEY; ";
  ::setenv("RUBATO_PLACE_KEY", "of another run", 1);
  auto const all = lines_of(run({"-n", "2", "--no-prefix", "--grace", "30", "--", "sh", "-c", script}).output);
  auto const both_lives = lines_of(
      run_shell(script + "! mkdir $S/life", {"-n", "1", "--no-prefix", "--on-loss", "go-on", "--restart", "1"}).output);
  ::unsetenv("RUBATO_PLACE_KEY");
  CHECK(all.size() == 4);
  CHECK(std::set<std::string>(all.begin(), all.end()).size() == 4);
  for (auto const& key : all) CHECK(matches(key, "[0-9a-f]{64}"));
  REQUIRE(both_lives.size() == 2);
  CHECK(both_lives[0] == both_lives[1]);
}

TEST_CASE("the coordinator's directory is private, and gone after the run", "[tools][launch]") {
  auto const [ending, exit_code] =
      GENERATE(table<std::string, int>({{"exit 0", 0}, {"exit 3", 3}, {"kill -9 $$", 137}}));
  std::string const script =
      "d=${RUBATO_COORDINATOR#unix:}; d=${d%/coordinator}; touch $d/x; stat -c %a $d; echo $d; ";
  auto const result = run_shell(script + ending, {"-n", "1", "--no-prefix"});
  CHECK(result.exit_code == exit_code);
  auto const lines = lines_of(result.output);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == "700");
  CHECK_THAT(lines[1], Contains("/rubato-"));
  CHECK_FALSE(std::filesystem::exists(lines[1]));
}

TEST_CASE("output and errors go their ways with prefixes", "[tools][launch]") {
  auto const result = run_shell(std::string(takes_part) + "echo to output; echo; echo to errors >&2");
  CHECK(sorted(lines_of(result.output)) ==
        words{"[worker 0] ", "[worker 0] to output", "[worker 1] ", "[worker 1] to output"});
  CHECK(sorted(lines_of(result.errors)) == words{"[worker 0] to errors", "[worker 1] to errors"});
}

TEST_CASE("an unfinished last line is completed", "[tools][launch]") {
  auto const result = run_shell("printf 'one\\ntwo'", {"-n", "1"});
  CHECK(result.output == "[worker 0] one\n[worker 0] two\n");
}

TEST_CASE("lines of several processes do not mix", "[tools][launch]") {
  auto const result = run_shell(
      "i=0; while [ $i -lt 500 ]; do printf $RANK; printf \"$RANK$RANK\\n\"; i=$((i+1)); done",
      {"-n", "4"});
  std::array<int, 4> count{};
  for (auto const& line : lines_of(result.output)) {
    auto const rank = static_cast<std::size_t>(line.at(8) - '0');
    std::string const thrice(3, line[8]);
    REQUIRE(line == "[worker " + thrice.substr(2) + "] " + thrice);
    ++count.at(rank);
  }
  CHECK(count == std::array{500, 500, 500, 500});
}

TEST_CASE("a very long line is passed on in parts", "[tools][launch]") {
  auto const result = run_shell("head -c 200000 /dev/zero | tr '\\0' $RANK; echo");
  std::array<std::size_t, 2> count{};
  for (auto const& line : lines_of(result.output)) {
    std::string const text = line.substr(11);
    REQUIRE(text.size() <= launch::line_maker::longest);
    REQUIRE(text.find_first_not_of(line[8]) == std::string::npos);
    count.at(static_cast<std::size_t>(line[8] - '0')) += text.size();
  }
  CHECK(count == std::array<std::size_t, 2>{200000, 200000});
}

constexpr auto longest = launch::line_maker::longest;

TEST_CASE("bytes become lines, however they come in", "[tools][launch]") {
  auto const size = GENERATE(std::size_t{0}, std::size_t{1}, longest - 1, longest, longest + 1,
                             2 * longest, 2 * longest + 1);
  auto const step = GENERATE(std::size_t{1}, std::size_t{1000}, std::size_t{1} << 20);
  std::string const text = std::string(size, 'x') + "\ny";
  launch::line_maker lines("> ");
  std::string result;
  for (std::size_t at = 0; at < text.size(); at += step) {
    result += lines.add(std::string_view(text).substr(at, step));
  }
  std::string expected;
  for (std::size_t left = size; left > longest; left -= longest) {
    expected += "> " + std::string(longest, 'x') + "\n";
  }
  std::size_t const last = size == 0 ? 0 : (size - 1) % longest + 1;
  expected += "> " + std::string(last, 'x') + "\n";
  CHECK((result == expected));
  CHECK(lines.finish() == "> y\n");
  CHECK(lines.finish().empty());
}

TEST_CASE("nothing can be read from standard input", "[tools][launch]") {
  CHECK(run_shell("cat; exit 4").exit_code == 4);
}

TEST_CASE("a run ends well with its workers", "[tools][launch]") {
  auto const result = run_shell("exit 0", {"--verbose"});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.errors, Contains("was killed by signal 15"));
}

TEST_CASE("servers have time to end by themselves", "[tools][launch]") {
  auto const* const server = "sh -c 'while [ ! -e $S/done ]; do sleep 0.01; done; echo saved'";
  auto const result =
      run_shell("echo > $S/done", {"-n", "1", "--server-command", server, "--grace", "30"});
  CHECK(result.exit_code == 0);
  CHECK(sorted(lines_of(result.output)) == words{"[coordinator] saved", "[server 0] saved"});
}

TEST_CASE("a worker that fails ends the others", "[tools][launch]") {
  auto const [ending, exit_code, how] = GENERATE(table<std::string, int, std::string>(
      {{"exit 3", 3, "ended with exit code 3"},
       {"kill -9 $$", 137, "was killed by signal 9 \\(Killed\\)"}}));
  launched launch(
      shell("if [ $RANK = 0 ]; then echo $$ > $S/id; exec sleep 1000; fi; "
            "while [ ! -s $S/id ]; do sleep 0.01; done; " +
            ending));
  launch.await_file("id");
  std::string const id = lines_of(launch.file("id")).at(0);
  auto const result = launch.wait();
  CHECK(result.exit_code == exit_code);
  CHECK(matches(result.errors, "rubato-launch: worker 1 \\(pid [0-9]+\\) " + how + "\n"));
  CHECK(::kill(std::stoi(id), 0) == -1);
}

TEST_CASE("a process that does not end is killed after the grace time", "[tools][launch]") {
  auto const result = run_shell(
      "if [ $RANK = 0 ]; then trap '' TERM; echo > $S/ready; sleep 1000; fi; "
      "while [ ! -s $S/ready ]; do sleep 0.01; done; exit 5",
      {"--verbose"});
  CHECK(result.exit_code == 5);
  CHECK_THAT(result.errors, Contains("was killed by signal 9"));
}

TEST_CASE("who has ended is seen also where no signal says so", "[tools][launch]") {
  struct none_of_ends {  // as with whoever starts it: it is inherited
    sigset_t usual{};
    none_of_ends() {
      sigset_t ends;
      ::sigemptyset(&ends);
      ::sigaddset(&ends, SIGCHLD);
      ::pthread_sigmask(SIG_BLOCK, &ends, &usual);
    }
    ~none_of_ends() { ::pthread_sigmask(SIG_SETMASK, &usual, nullptr); }
  };
  std::optional<none_of_ends> blocked(std::in_place);
  launched launch(shell("exit 3"));
  blocked.reset();
  CHECK(launch.wait().exit_code == 3);
}

TEST_CASE("what a process has started ends with it", "[tools][launch]") {
  launched launch(shell("sleep 1000 & echo $! > $S/id; exit 0", {"-n", "1"}));
  launch.await_file("id");
  std::string const id = lines_of(launch.file("id")).at(0);
  CHECK(launch.wait().exit_code == 0);
  CHECK(comes_true([&] { return gone(id); }));
}

TEST_CASE("signals are passed on", "[tools][launch]") {
  struct example {
    int number;
    char const* name;
  };
  auto const signal =
      GENERATE(example{SIGTERM, "TERM"}, example{SIGINT, "INT"}, example{SIGHUP, "HUP"});
  std::string const name = signal.name;
  launched launch(shell("trap 'echo got " + name + "; exit 0' " + name +
                            "; echo > $S/ready.$RANK; while :; do sleep 0.01; done",
                        {"--grace", "30"}));
  launch.await_file("ready.0");
  launch.await_file("ready.1");
  launch.send(signal.number);
  auto const result = launch.wait();
  CHECK(result.exit_code == 128 + signal.number);
  CHECK(sorted(lines_of(result.output)) ==
        words{"[worker 0] got " + name, "[worker 1] got " + name});
  CHECK_THAT(result.errors, Contains("ending the run after signal"));
}

TEST_CASE("a user's signals are passed on and end nothing", "[tools][launch]") {
  auto const number = GENERATE(SIGUSR1, SIGUSR2);
  launched launch(
      shell("trap 'echo got it; exit 0' USR1 USR2; echo > $S/ready.$RANK; "
            "while :; do sleep 0.01; done",
            {"--server-command",
             "sh -c \"trap '' USR1 USR2; echo > $S/$RUBATO_ROLE; exec sleep 1000\""}));
  for (auto const* const file : {"ready.0", "ready.1", "server", "coordinator"}) {
    launch.await_file(file);
  }
  launch.send(number);
  auto const result = launch.wait();
  CHECK(result.exit_code == 0);
  CHECK(sorted(lines_of(result.output)) == words{"[worker 0] got it", "[worker 1] got it"});
}

TEST_CASE("a second interrupt kills at once", "[tools][launch]") {
  launched launch(shell("trap '' INT; echo > $S/ready.$RANK; sleep 1000", {"--grace", "1000"}));
  launch.await_file("ready.0");
  launch.await_file("ready.1");
  launch.send(SIGINT);
  launch.await_error("ending the run after signal 2 (Interrupt)");
  launch.send(SIGINT);
  CHECK(launch.wait().exit_code == 130);
}

TEST_CASE("children die with a launcher that is killed", "[tools][launch]") {
  launched launch(
      shell("echo $$ > $S/id.$RANK; exec sleep 1000",
            {"--server-command", "sh -c 'echo $$ > $S/id.$RUBATO_ROLE; exec sleep 1000'"}));
  words ids;
  for (auto const* const file : {"id.0", "id.1", "id.server", "id.coordinator"}) {
    launch.await_file(file);
    ids.push_back(lines_of(launch.file(file)).at(0));
  }
  launch.send(SIGKILL);
  CHECK(launch.wait().exit_code == 137);
  for (auto const& id : ids) CHECK(comes_true([&] { return gone(id); }));
}

TEST_CASE("a run can go on without a worker", "[tools][launch]") {
  auto const result = run_shell(
      "echo $$ > $S/id.$RANK; [ $RANK = 0 ] && exit 3; "
      "while [ ! -s $S/id.0 ] || [ -e /proc/$(cat $S/id.0) ]; do sleep 0.01; done; echo finished",
      {"--on-loss", "go-on"});
  CHECK(result.exit_code == 0);
  CHECK(result.output == "[worker 1] finished\n");
  CHECK_THAT(result.errors, Contains("worker 0 (pid ") && Contains(") ended with exit code 3"));
}

TEST_CASE("what a loss means may come from the environment", "[tools][launch]") {
  char const* const variable = "RUBATO_ON_LOSS";
  char const* const arguments[] = {"rubato-launch", "-n", "1", "--", "x"};
  std::ostringstream out;
  ::setenv(variable, "go-on", 1);
  auto const options = launch::parse(5, arguments, out);
  ::setenv(variable, "go_on", 1);
  CHECK_THROWS_WITH(launch::parse(5, arguments, out),
                    "--on-loss (or RUBATO_ON_LOSS) must be end or go-on, but is 'go_on'");
  ::unsetenv(variable);
  REQUIRE(options.has_value());
  CHECK(options->when_lost == net::on_loss::go_on);
}

TEST_CASE("rubato-launch writes what it says in the format that is asked for, and tells the processes",
          "[tools][launch]") {
  auto const result = run_shell("echo $RUBATO_LOG_FORMAT; exit 3", {"-n", "1", "--log-format", "json"});
  CHECK(result.exit_code == 3);
  CHECK(result.output == "[worker 0] json\n");
  CHECK(matches(result.errors, "\\{\"time\":\"[^\"]*\",\"level\":\"warning\",\"program\":\"rubato-launch\","
                               "\"message\":\"worker 0 \\(pid [0-9]+\\) ended with exit code 3\"\\}\n"));
  ::setenv("RUBATO_LOG_FORMAT", "xml", 1);
  auto const refused = run({"-n", "1", "--", "true"});
  ::unsetenv("RUBATO_LOG_FORMAT");
  CHECK(refused.exit_code == 2);
  CHECK(refused.errors ==
        "rubato-launch: --log-format (or RUBATO_LOG_FORMAT) must be text, keyvalue or json, but is 'xml'\n");
}

TEST_CASE("a run whose workers all fail ends with the first failure", "[tools][launch]") {
  auto const result = run_shell(
      "echo $$ > $S/id.$RANK; [ $RANK = 1 ] && exit 3; "
      "while [ ! -s $S/id.1 ] || [ -e /proc/$(cat $S/id.1) ]; do sleep 0.01; done; exit 4",
      {"--on-loss", "go-on"});
  CHECK(result.exit_code == 3);
  CHECK_THAT(result.errors, Contains("exit code 3") && Contains("exit code 4"));
}

TEST_CASE("a worker that fails is started again", "[tools][launch]") {
  std::string const script = "echo $RANK >> $S/tries.$RANK; [ $(wc -l < $S/tries.$RANK) -ge 3 ]";
  auto const [restarts, exit_code, tries] =
      GENERATE(table<std::string, int, std::string>({{"2", 0, "0\n0\n0\n"}, {"1", 1, "0\n0\n"}}));
  launched launch(shell(script, {"-n", "1", "--on-loss", "go-on", "--restart", restarts}));
  auto const result = launch.wait();
  CHECK(result.exit_code == exit_code);
  CHECK_THAT(result.errors, Contains("takes its place (1 of " + restarts + " restarts)"));
  CHECK(launch.file("tries.0") == tries);
}

TEST_CASE("a server that fails ends the run", "[tools][launch]") {
  auto const result = run({"-n", "2", "--server-command",
                           "sh -c '[ $RUBATO_ROLE = server ] && exit 7; exec sleep 1000'",
                           "--on-loss", "go-on", "--grace", "0.1", "--", "sleep", "1000"});
  CHECK(result.exit_code == 7);
  CHECK(
      matches(result.errors, "rubato-launch: server 0 \\(pid [0-9]+\\) ended with exit code 7\n"));
}

TEST_CASE("a coordinator that ends early ends the run", "[tools][launch]") {
  auto const result = run({"-n", "2", "--server-command",
                           "sh -c '[ $RUBATO_ROLE = coordinator ] && exit 0; exec sleep 1000'",
                           "--grace", "0.1", "--", "sleep", "1000"});
  CHECK(result.exit_code == 1);
  CHECK(matches(result.errors,
                "rubato-launch: coordinator \\(pid [0-9]+\\) ended before the workers did\n"));
}

TEST_CASE("a server may end well a little before the workers", "[tools][launch]") {
  auto const result =
      run_shell(std::string(takes_part) +
                    "while [ ! -s $S/server ] || [ -e /proc/$(cat $S/server) ]; do sleep 0.01; done",
                {"--server-command", "sh -c 'echo $$ > $S/$RUBATO_ROLE'", "--grace", "30"});
  CHECK(result.exit_code == 0);
  CHECK(result.errors.empty());
}

TEST_CASE("a run that is complete without a worker that stands still ends well, and that worker with it",
          "[tools][launch]") {
  launched run({"-n", "3", "--on-loss", "go-on", "--grace", "0.1", "--server-command", "sh -c 'echo > $S/ended'", "--",
                "sh", "-c",
                "[ $RANK = 1 ] && { echo $$ > $S/id; kill -STOP $$; }; until [ -s $S/ended ]; do sleep 0.01; done"});
  run.await_file("id");
  outcome const o = run.wait();
  CHECK(o.exit_code == 0);
  CHECK(matches(o.errors, "rubato-launch: worker 1 \\(pid [0-9]+\\) stands still; the run is complete without it, and "
                          "it is ended now\n"));
}

TEST_CASE("a worker that is started again too late does not spoil a run that ended well", "[tools][launch]") {
  std::string const script =
      "if [ $RANK = 0 ]; then until [ -s $S/again ]; do sleep 0.01; done; exit 0; fi; "
      "[ -e $S/once ] || { echo > $S/once; exit 3; }; echo > $S/again; "
      "until [ -e $S/told ]; do sleep 0.01; done; exit 4";
  launched run({"-n", "2", "--on-loss", "go-on", "--restart", "1", "--grace", "0.1", "--server-command",
                "sh -c 'until [ -s $S/again ]; do sleep 0.01; done'", "--", "sh", "-c", script});
  run.await_error("is waited for");
  run.make_file("told");
  outcome const o = run.wait();
  CHECK(o.exit_code == 0);
  CHECK_THAT(o.errors, Contains("takes its place (1 of 1 restarts)") && Contains("ended with exit code 4"));
}

TEST_CASE("a worker that is busy after the run is waited for", "[tools][launch]") {
  std::string const on_loss = GENERATE("end", "go-on");
  std::string const helpers = GENERATE("true", "sh -c '[ $RUBATO_ROLE = server ] && exec sleep 1000; "
                                               ": > ${RUBATO_COORDINATOR#unix:}'");
  std::string const script = "[ $RANK = 0 ] && exit 0; until [ -e $S/told ]; do sleep 0.01; done; echo saved";
  launched run(
      {"-n", "2", "--on-loss", on_loss, "--grace", "0.1", "--server-command", helpers, "--", "sh", "-c", script});
  run.await_error("is waited for");
  run.make_file("told");
  outcome const o = run.wait();
  CHECK(o.exit_code == 0);
  CHECK(o.output == "[worker 1] saved\n");
  CHECK_THAT(o.errors, Contains(") goes on after ") && !Contains("before the workers did"));
}

TEST_CASE("a worker that is busy after the run has until the time limit", "[tools][launch]") {
  outcome const o = run({"-n", "1", "--grace", "0.1", "--timeout", "0.5", "--server-command", "true", "--", "sh", "-c",
                         "exec sleep 1000"});
  CHECK(o.exit_code == 124);
  CHECK_THAT(o.errors, Contains("the run has not ended within 0.5 s"));
}

TEST_CASE("a run that no worker completes ends as the first that failed, whoever stands still", "[tools][launch]") {
  outcome const o = run({"-n", "2", "--on-loss", "go-on", "--grace", "0.1", "--server-command",
                         "sh -c 'until [ -s $S/failed ]; do sleep 0.01; done; sleep 0.2'", "--", "sh", "-c",
                         "[ $RANK = 0 ] && { echo > $S/failed; exit 7; }; kill -STOP $$"});
  CHECK(o.exit_code == 7);
  CHECK_THAT(o.errors, Contains("ended before the workers did"));
}

TEST_CASE("a run may be limited in time", "[tools][launch]") {
  auto const result = run_shell("exec sleep 1000", {"--timeout", "0.1"});
  CHECK(result.exit_code == 124);
  CHECK(result.errors == "rubato-launch: the run has not ended within 0.1 s\n");
}

TEST_CASE("a run ends when nobody reads what it says", "[tools][launch]") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  ::close(ends[0]);
  launched launch(shell("while :; do echo y; done"), ends[1]);
  ::close(ends[1]);
  CHECK(launch.wait().exit_code == 141);
}

// Says 333 for worker 3 again and again, until it is killed.
constexpr auto* speak = "while :; do echo $RANK$RANK$RANK; done";

void check_whole_lines(std::string const& text) {
  CHECK(text.size() > 1000);
  REQUIRE(text.back() == '\n');
  auto const lines = lines_of(text);
  auto const bad = std::find_if(lines.begin(), lines.end(), [](std::string const& line) {
    return line.size() != 14 ||
           line != "[worker " + line.substr(8, 1) + "] " + std::string(3, line[8]);
  });
  CHECK((bad == lines.end() ? std::string() : *bad) == "");
}

TEST_CASE("signals are passed on while nobody reads what is said", "[tools][launch]") {
  stalled_reader reader(GENERATE("pipe", "socket", "terminal"));
  std::string const trap = "trap 'echo > $S/got; exit 0' TERM; ";
  launched launch(shell(trap + "if [ $RANK = 0 ]; then " + speak +
                            "; fi; echo > $S/ready; while :; do sleep 0.01; done",
                        {"--grace", "2"}),
                  reader.end());
  launch.await_file("ready");
  reader.await_full();
  launch.send(SIGTERM);
  launch.await_file("got");
  CHECK(launch.wait().exit_code == 143);
  auto const text = reader.read();
  // Others than a pipe take parts of what is written.
  check_whole_lines(text.substr(0, text.rfind('\n') + 1));
}

TEST_CASE("a pipe has whole lines when the rest is given up", "[tools][launch]") {
  stalled_reader reader("pipe");
  launched launch(shell(speak, {"--timeout", "0.5"}), reader.end());
  auto const result = launch.wait();
  CHECK(result.exit_code == 124);
  CHECK_THAT(result.errors, Contains("has not ended within 0.5 s"));
  check_whole_lines(reader.read());
}

TEST_CASE("a failure is seen while nobody reads, and all that was said can be read afterwards",
          "[tools][launch]") {
  stalled_reader reader(GENERATE("pipe", "socket", "terminal"));
  launched launch(shell(std::string("if [ $RANK = 0 ]; then echo $$ > $S/id; ") + speak +
                        "; fi; while [ ! -e $S/fail ]; do sleep 0.01; done; echo 111; exit 3"),
                  reader.end());
  launch.await_file("id");
  std::string const id = lines_of(launch.file("id")).at(0);
  reader.await_full();
  launch.make_file("fail");
  launch.await_error("ended with exit code 3");
  CHECK(comes_true([&] { return gone(id); }));
  CHECK(launch.wait([&] { (void)reader.read(); }).exit_code == 3);
  CHECK(reader.read().find("[worker 1] 111\n") != std::string::npos);
  check_whole_lines(reader.read());
}

TEST_CASE("a second signal ends the wait for a reader", "[tools][launch]") {
  stalled_reader reader("pipe");
  launched launch(shell(std::string("if [ $RANK = 0 ]; then ") + speak +
                        "; fi; while [ ! -e $S/fail ]; do sleep 0.01; done; exit 3"),
                  reader.end());
  reader.await_full();
  launch.make_file("fail");
  launch.await_error("ended with exit code 3");
  launch.send(SIGTERM);
  CHECK(launch.wait().exit_code == 3);
}

TEST_CASE("processes wait for who reads, and nothing is lost", "[tools][launch]") {
  stalled_reader reader(GENERATE("pipe", "socket", "terminal"));
  launched launch(shell("yes $RANK$RANK$RANK | head -n 500000; echo > $S/done.$RANK"),
                  reader.end());
  reader.await_full();
  launch.await_standstill();
  CHECK(launch.file("done.0").empty());
  CHECK(launch.file("done.1").empty());
  constexpr std::size_t all = 2 * 500000 * 15;
  REQUIRE(comes_true([&] { return reader.read().size() >= all; }));
  CHECK(launch.wait().exit_code == 0);
  auto const& text = reader.read();
  CHECK(text.size() == all);
  check_whole_lines(text);
}

TEST_CASE("output and errors that go to the same place do not mix", "[tools][launch]") {
  stalled_reader reader("pipe");
  launched launch(shell(takes_part + std::string("printf '%010000d\n' $(seq 100) >&$((RANK+1))")), reader.end(),
                  reader.end());
  reader.await_full();
  REQUIRE(comes_true([&] { return reader.read().size() >= 200 * 10012; }));
  CHECK(launch.wait().exit_code == 0);
  for (auto const& line : lines_of(reader.read())) {
    REQUIRE(line.size() == 10011);
    REQUIRE(line.substr(11, 9990) == std::string(9990, '0'));
  }
}

TEST_CASE("a run goes on where its output cannot be written, and says so once", "[tools][launch]") {
  int const full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  REQUIRE(full >= 0);
  launched launch(shell(takes_part + std::string("echo one; sleep 0.1; echo two; echo > $S/done.$RANK")), full);
  ::close(full);
  auto const result = launch.wait();
  CHECK(result.exit_code == 0);
  CHECK(result.errors ==
        "rubato-launch: cannot write to standard output: No space left on device; the run goes on, "
        "and lines are lost\n");
  CHECK(launch.file("done.0") == "\n");
  CHECK(launch.file("done.1") == "\n");
}

TEST_CASE("a child's end is heard of where SIGCHLD was ignored, and known to have come where others waited for it",
          "[tools][launch]") {
  auto const before = ::signal(SIGCHLD, SIG_IGN);
  auto const child = launch::process::start([] { return 3; });
  bool const others_wait = GENERATE(false, true);
  if (others_wait) ::waitpid(child.id, nullptr, 0);
  std::optional<launch::ending> how;
  CHECK(comes_true([&] { return (how = launch::end_of(child.id)).has_value(); }));
  ::signal(SIGCHLD, before);
  REQUIRE(how.has_value());
  CHECK_FALSE(how->well());
  CHECK(how->exit_code() == (others_wait ? 1 : 3));
  CHECK(how->text() == (others_wait ? "ended, and nobody knows how" : "ended with exit code 3"));
}

TEST_CASE("a command that cannot be executed ends the run with the reason", "[tools][launch]") {
  auto const [command, reason] = GENERATE(table<std::string, std::string>(
      {{"/absent/program", "No such file or directory"}, {"/", "Permission denied"}}));
  auto const result = run({"-n", "2", "--server-command", idle, "--", command});
  CHECK(result.exit_code == 127);
  CHECK(result.errors == "rubato-launch: cannot execute '" + command + "': " + reason + "\n");
}

TEST_CASE("bad options of rubato-launch are refused", "[tools][launch]") {
  auto const [arguments, sentence] = GENERATE(table<words, std::string>({
      {{"-n", "0", "--", "true"}, "--workers must be from 1 to 10000, but is 0"},
      {{"-n", "1", "-s", "10001", "--", "true"}, "--servers must be from 0 to 10000, but is 10001"},
      {{"--", "true"}, "--workers is required"},
      {{"-n", "1"}, "a command must follow --, such as rubato-launch -n 4 -- ./train"},
      {{"-n", "1", "--"}, "a command must follow --, such as rubato-launch -n 4 -- ./train"},
      {{"-n", "1", "true"}, "'true' is not an option; the command must follow --"},
      {{"-n", "1", "--nope", "--", "true"},
       "'--nope' is not an option; the command must follow --"},
      {{"-n", "1", "--on-loss", "go", "--", "true"},
       "--on-loss (or RUBATO_ON_LOSS) must be end or go-on, but is 'go'"},
      {{"-n", "1", "--restart", "2", "--", "true"},
       "--restart must be 0 without --on-loss go-on, but is 2"},
      {{"-n", "1", "--grace", "-1", "--", "true"},
       "--grace must be from 0 to 100000000 seconds, but is -1"},
      {{"-n", "-18446744073709551615", "--", "true"},
       "--workers: \"-18446744073709551615\", expected a whole number from 0 to 2^64 - 1"},
      {{"-n", "1", "--timeout", "nan", "--", "true"},
       "--timeout must be from 0 to 100000000 seconds, but is nan"},
      {{"-n", "1", "--server-command", "a 'b", "--", "true"},
       "--server-command must close its ', but is: a 'b"},
  }));
  auto const result = run(arguments);
  CHECK(result.exit_code == 2);
  CHECK(result.output.empty());
  CHECK(result.errors == "rubato-launch: " + sentence + "\n");
}

TEST_CASE("a time limit above 0 is never rounded to none", "[tools][launch]") {
  auto const limit = [](char const* seconds) {
    std::array<char const*, 6> const line{"rubato-launch", "-n1", "--timeout", seconds, "--", "true"};
    std::ostringstream out;
    return launch::parse(static_cast<int>(line.size()), line.data(), out).value().timeout;
  };
  CHECK(limit("0.0001") == std::chrono::milliseconds(1));
  CHECK(limit("0.0014") == std::chrono::milliseconds(1));
  CHECK(limit("0.57") == std::chrono::milliseconds(570));
  CHECK(limit("0") == std::chrono::milliseconds(0));
}

TEST_CASE("rubato-launch tells how it is used", "[tools][launch]") {
  auto const result = run({"--help"});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.output, Contains("-- COMMAND [ARGUMENTS...]") && Contains("--on-loss"));
  CHECK_THAT(result.output, Contains("Environment:\n  RUBATO_ON_LOSS") && Contains("TMPDIR"));
  CHECK_THAT(result.output, Contains("Exit code:\n  0 ") && Contains("  124 ") && Contains("  127 "));
}

TEST_CASE("help that cannot be written is an error of rubato-launch", "[tools][launch]") {
  int const full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  REQUIRE(full >= 0);
  launched launch({"--help"}, full);
  ::close(full);
  auto const result = launch.wait();
  CHECK(result.exit_code == 1);
  CHECK(result.errors == "rubato-launch: cannot write to standard output: No space left on device\n");
}

TEST_CASE("a command's own arguments are left alone", "[tools][launch]") {
  auto const result = run({"-n", "1", "--grace", "0.1", "--server-command", idle, "--", "printf",
                           "%s\n", "-n", "--", "", "[a,b]", "--help"});
  CHECK(result.exit_code == 0);
  CHECK(result.output ==
        "[worker 0] -n\n[worker 0] --\n[worker 0] \n[worker 0] [a,b]\n[worker 0] --help\n");
}

TEST_CASE("a server's command is split into words", "[tools][launch]") {
  CHECK(launch::words_of("").empty());
  CHECK(launch::words_of("  a  b ") == words{"a", "b"});
  CHECK(launch::words_of("a 'b c' \"d 'e'\"") == words{"a", "b c", "d 'e'"});
  CHECK(launch::words_of("--x='y z'w ''") == words{"--x=y zw", ""});
  CHECK_THROWS_AS(launch::words_of("a \"b"), option_error);
}
