// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/processes/run_processes.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/tools/launch/process.hpp"
#include "src/tools/launch/token.hpp"

namespace rubato::bench {
namespace {

/// What a process writes to one of its streams.
class stream {
 public:
  explicit stream(launch::file_handle from) : from_(std::move(from)) {
    ::fcntl(from_.get(), F_SETFL, O_NONBLOCK);
  }

  /// To be watched by poll: -1 after the end.
  [[nodiscard]] int number() const noexcept { return from_.get(); }
  [[nodiscard]] std::string const& text() const noexcept { return text_; }

  /// Takes what is there.
  void take() {
    std::array<char, 64 * 1024> buffer;
    while (from_.get() >= 0) {
      ssize_t const n = ::read(from_.get(), buffer.data(), buffer.size());
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (n <= 0) from_ = launch::file_handle();
      if (n > 0) text_.append(buffer.data(), static_cast<std::size_t>(n));
    }
  }

 private:
  launch::file_handle from_;
  std::string text_;
};

/// One process of a run. It does not outlive this object.
class member {
 public:
  member(net::deployment const& place, process_body const& body)
      : place_(place),
        process_(launch::process::start([&] { return live(place, body); })),
        said_(std::move(process_.output)),
        complained_(std::move(process_.errors)) {}
  member(member const&) = delete;
  member& operator=(member const&) = delete;
  ~member() {
    if (ended_) return;
    launch::send(process_.id, SIGKILL);
    ::waitpid(process_.id, nullptr, 0);
  }

  [[nodiscard]] net::deployment const& place() const noexcept { return place_; }
  [[nodiscard]] std::string const& said() const noexcept { return said_.text(); }
  [[nodiscard]] bool has_ended() const noexcept { return ended_.has_value(); }

  void watch(std::vector<pollfd>& watched) const {
    for (stream const* const s : {&said_, &complained_})
      watched.push_back({s->number(), POLLIN, 0});
  }

  /// Takes what it has written, and note of its end.
  void look() {
    if (!ended_) ended_ = launch::end_of(process_.id);  // before reading, for what it said last
    said_.take();
    complained_.take();
  }

  [[nodiscard]] bool has_failed() const noexcept { return ended_ && !ended_->well(); }
  /// Whether the fault is its own more likely than another's.
  [[nodiscard]] bool was_killed() const noexcept { return ended_ && ended_->by_signal; }
  [[nodiscard]] process_failure failure() const {
    std::string_view last = complained_.text();
    while (last.ends_with('\n')) last.remove_suffix(1);
    return process_failure(fmt::format("{} (pid {}) {}{}{}", name(), process_.id, ended_->text(),
                                       last.empty() ? "" : ": ", last));
  }

  /// Where it listens, once it has said so.
  [[nodiscard]] std::optional<net::address> listens() const {
    auto const end = said().find('\n');
    if (end == std::string::npos) return std::nullopt;
    return net::address::parse(std::string_view(said()).substr(0, end));
  }

 private:
  [[nodiscard]] std::string name() const {
    if (place_.as == net::role::coordinator) return net::to_string(place_.as);
    return fmt::format("{} {}", net::to_string(place_.as), place_.rank.value_or(0));
  }

  /// Past the streams of C, in which what the parent has not flushed may be.
  [[nodiscard]] static bool write_all(int to, std::string_view text) noexcept {
    while (!text.empty()) {
      ssize_t const n = ::write(to, text.data(), text.size());
      if (n < 0 && errno != EINTR) return false;
      if (n > 0) text.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }
  /// In the child.
  static int live(net::deployment const& place, process_body const& body) noexcept {
    try {
      auto const tell = [](net::address const& where) {
        if (!write_all(STDOUT_FILENO, where.text() + '\n'))
          throw process_failure("nobody hears where it listens");
      };
      return write_all(STDOUT_FILENO, body(place, tell)) ? 0 : 1;
    } catch (std::exception const& failure) {
      (void)write_all(STDERR_FILENO, failure.what());
      return 1;
    }
  }

  net::deployment place_;
  launch::process process_;
  stream said_, complained_;
  std::optional<launch::ending> ended_;
};

/// A loopback port that nobody uses yet: a coordinator wants to be told.
std::uint16_t free_port() {
  int const s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof where;
  bool const found = ::bind(s, reinterpret_cast<sockaddr*>(&where), size) == 0 &&
                     ::getsockname(s, reinterpret_cast<sockaddr*>(&where), &size) == 0;
  ::close(s);
  if (!found) throw process_failure("there is no free port on the loopback network");
  return ntohs(where.sin_port);
}

class process_group {
 public:
  process_group(process_plan const& plan, process_body const& body) : plan_(plan), body_(body) {
    place_.workers = plan.workers;
    place_.servers = plan.servers;
    place_.keys.token = launch::random_token();
    place_.coordinator = {.host = "127.0.0.1", .port = free_port()};
    place_.silence = std::chrono::seconds(30);  // on a busy machine; who ends is noticed anyway
    members_.reserve(1 + plan.servers + plan.workers);
  }

  std::string run() {
    std::fflush(nullptr);  // or copies of this process would have the same text
    start(net::role::coordinator, 0);
    member const& coordinator = *members_.front();
    while (!coordinator.listens()) wait();
    net::address const bound = *coordinator.listens();
    place_.coordinator = plan_.coordinator_address ? plan_.coordinator_address() : bound;
    for (std::uint32_t i = 0; i < plan_.servers; ++i) start(net::role::server, i);
    for (std::uint32_t i = 0; i < plan_.workers; ++i) start(net::role::worker, i);
    if (plan_.listening) tell_who_listens();
    while (!std::ranges::all_of(members_, [](auto const& m) { return m->has_ended(); })) wait();
    return members_[1 + plan_.servers]->said();
  }

 private:
  void start(net::role as, std::uint32_t rank) {
    net::deployment place = place_;
    place.as = as;
    place.rank = rank;
    if (as == net::role::server && plan_.server_address)
      place.announce = plan_.server_address(rank);
    members_.push_back(std::make_unique<member>(place, body_));
  }

  /// Until somebody says something or ends.
  void wait() {
    constexpr int glance_ms = 20;  // a process may end and leave its streams to a child of its own
    std::vector<pollfd> watched;
    for (auto const& m : members_) m->watch(watched);
    ::poll(watched.data(), watched.size(), glance_ms);
    for (auto const& m : members_) m->look();
    for (auto const& m : members_)
      if (m->was_killed()) throw m->failure();
    for (auto const& m : members_)
      if (m->has_failed()) throw m->failure();
  }

  void tell_who_listens() {
    for (std::uint32_t i = 0; i <= plan_.servers; ++i) {
      member const& m = *members_[i];
      while (!m.listens()) wait();
      plan_.listening(m.place().as, *m.place().rank, *m.listens());
    }
  }

  process_plan const& plan_;
  process_body const& body_;
  net::deployment place_;
  std::vector<std::unique_ptr<member>> members_;  ///< the coordinator, the servers, the workers
};

}  // namespace

std::string run_processes(process_plan const& plan, process_body const& body) {
  return process_group(plan, body).run();
}

}  // namespace rubato::bench
