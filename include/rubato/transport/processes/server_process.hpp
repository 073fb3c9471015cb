// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rubato/core/thread_source.hpp"
#include "rubato/net/deployment.hpp"
#include "rubato/net/link.hpp"
#include "rubato/net/network.hpp"
#include "rubato/net/refusal_log.hpp"
#include "rubato/server/blueprint.hpp"
#include "rubato/server/shard.hpp"
#include "rubato/transport/processes/chunk_arena.hpp"
#include "rubato/transport/processes/coordinator_link.hpp"
#include "rubato/transport/processes/enrolments.hpp"
#include "rubato/transport/processes/lent_memory.hpp"
#include "rubato/transport/processes/past_sessions.hpp"
#include "rubato/transport/processes/process_usage.hpp"
#include "rubato/transport/processes/server_session.hpp"
#include "rubato/transport/processes/server_stats.hpp"
#include "rubato/transport/processes/wait_watch.hpp"
#include "rubato/wire/control.hpp"
#include "rubato/wire/messages.hpp"

namespace rubato::detail {

/// Whether this machine's memory is enough for what the server in this place has of the tables; of one that has
/// yet to hear which one it is only where there is no other.
/// @throws option_error naming the table, its size and the memory that there is
void check_memory(blueprint const& plan, net::deployment const& place);

/// A server process: one shard of every table, behind links to the worker processes, under the orders of
/// the coordinator. All of it lives in one thread, so nothing is locked; only large tables are made on another one,
/// which nobody uses before.
class server_process final : coordinator_user {
 public:
  /// `sparse_max` bytes of rows of sparse tables come in one frame at most; `held_max` bytes of one
  /// process's commits are held back at most, beside those that the protocol lets it send.
  /// @param plan outlives this @throws option_error where there is no memory for this server's part of the tables
  server_process(std::unique_ptr<net::network> network, blueprint const& plan, std::string agreed,
                 net::deployment const& place, std::uint64_t sparse_max,
                 std::uint64_t held_max = std::uint64_t{1} << 30);
  ~server_process() override;

  /// Serves until all workers have left, or `stop` is called.
  /// @throws lost_error when the coordinator is lost, or ends the run because somebody else is; error
  /// (errc::refused) when it does not let this server in; error where this server fails by itself, for want of memory
  /// or as a store or merge throws, which ends the run for all
  void run();
  /// Makes `run` return. Any thread, and signal handlers' threads.
  void stop() noexcept;
  /// It is about to be stopped, and the coordinator may leave before it. Any thread.
  void expect_stop() noexcept { stop_expected_ = true; }
  /// Handles what has happened, without waiting: for whoever drives it step by step.
  void poll();
  /// Where it listens.
  [[nodiscard]] net::address bound() const { return listener_->bound(); }
  /// Its number in the run; nothing before the coordinator has let it in.
  [[nodiscard]] std::optional<server_id> number() const noexcept { return self_; }
  /// Any thread.
  [[nodiscard]] server_stats const& stats() const noexcept { return stats_; }

  // ---- for observers

  /// Why it has failed; empty if it has not.
  [[nodiscard]] std::string failure() const { return failure_ ? failure_->sentence() : std::string(); }
  /// Calls `f(process, frames)` with what arrives of each worker process that is here.
  template <class F>
  void for_each_arriving(F f) const {
    for (auto const& [id, s] : sessions_)
      if (!s->over) f(s->process, s->arriving);
  }
  /// Rows that count for worker processes.
  [[nodiscard]] process_usage const& usage() const noexcept { return usage_; }
  /// Its part of the tables. @pre it has been built: `server_stats::ready`
  [[nodiscard]] shard const& tables() const noexcept { return *shard_; }
  /// The memory that it shares with processes on its machine; null if it does not.
  [[nodiscard]] chunk_arena const* shared_memory() const noexcept { return memory_.arena(); }

 private:
  friend struct server_session;
  using session = server_session;

  /// A read that waits.
  struct waiting_read {
    asked_read asked;
    net::network::clock::time_point since;
  };
  /// Of a worker: of one clock, each of another table. The first has been held back, and the others go on when it does.
  struct waiting_reads {
    session* from;
    std::vector<waiting_read> reads;
    bool cut_is_early = false;  ///< they wait for orders that this server has yet to get
  };

  // worker processes
  void open_door();
  void welcome(std::unique_ptr<net::connection> guest, net::hello const& said);
  void begin(session& s, wire::frame_header const& header, std::span<std::byte const> meta,
             std::vector<std::span<std::byte>>& body);
  void end(session& s, wire::frame_header const& header);
  void see_memory(session& s);
  void return_commits();
  void lose(session& s, std::string const& reason, bool expected);
  void end_session(session& s);
  void forget_sessions();
  void count_connections();
  [[nodiscard]] bool has_tables(session const& s) const;
  [[nodiscard]] std::uint64_t workers_in(session const& s) const;
  [[nodiscard]] bool speaks_for(session const& s, std::uint32_t worker) const;

  // commits
  void take_commit(session& s, wire::frame_header const& header);
  void check_may_be_late(session const& s, sender const& from, refusal why);
  [[nodiscard]] refusal apply(session const& s, wire::frame_header const& header, commit_message&& m);
  void refuse(session& s, sender const& whom, std::uint64_t ticket, refusal why);

  // what is kept for worker processes
  void check_held(session& s, std::uint64_t bytes);
  void check_debt(session const& s) const;
  void take_rows(session const& s, commit_message const& m);
  void recount_rows(wire::begin_stage const& m);
  void recount_rows(std::size_t table);
  void check_limits(session& s);
  [[noreturn]] void beyond_limits(session const& s, char const* name, std::uint64_t most, std::string const& what);
  [[nodiscard]] std::uint64_t held_of(session const& s, std::uint64_t overhead) const;
  void weigh_memory();

  // reads
  void take_request(session& s, asked_read& asked);
  [[nodiscard]] bool joins(session& s, asked_read& asked);
  void observe(session& s, asked_read const& asked);
  void answer(session& s, asked_read const& asked, read_slot& slot, duration held);
  [[nodiscard]] std::uint64_t send_answer(session& s, wire::frame_header const& h, wire::reply_meta& meta,
                                          std::size_t table, read_slot& slot);
  [[nodiscard]] std::uint64_t send_coded(session& s, wire::frame_header const& h, wire::reply_meta& meta,
                                         std::size_t table, read_slot& slot);
  [[nodiscard]] std::span<std::byte const> written(wire::reply_meta const& meta);
  void prepare(read_slot& slot, std::size_t table, selection asked) const noexcept;
  void release();
  void flush();
  void retry_early();
  [[nodiscard]] std::optional<net::network::clock::time_point> waits_since() const;
  [[nodiscard]] std::string who_waits() const;
  void withdraw(worker_id reader);
  void withdraw(session& s);
  void count(session& s, std::uint64_t ticket);
  [[nodiscard]] shard_counters counters() const;

  // the coordinator
  void welcomed(wire::welcome const& w) override;
  void build();
  [[nodiscard]] bool build_beside();
  void begin_serving();
  void serve();
  [[nodiscard]] bool may_share_memory() const;
  void told(wire::control_message const& said) override;
  template <class Other>
  void on(Other const&);
  void on(wire::begin_stage const& m);
  void on(wire::server_order const& m);
  class own_body;
  void note_worker(std::uint32_t process, worker_id w);
  void on(wire::cut_mark const& m);
  void on(wire::admission const& m);
  void on(wire::expel const& m);
  void on(wire::end_stage const& m);
  void on(wire::shut_down const& m);
  void report_when_over();
  void coordinator_lost(std::string const& reason, bool expected) override;
  void coordinator_absent(std::string const& sentence) override;
  void coordinator_refused(std::string const& reason) override;
  void fail(errc code, std::string sentence) { failure_.emplace(code, std::move(sentence)); }
  template <class F>
  void answering_for_itself(F f);

  blueprint const& plan_;
  lent_memory memory_;  ///< first: chunks of it may be under way as long as there is a network
  net::deployment place_;
  std::uint64_t sparse_max_;
  std::uint64_t held_max_;
  std::unique_ptr<net::network> network_;
  std::optional<server_id> self_;
  std::unique_ptr<shard> shard_;
  stage_id stage_{};
  std::size_t protocol_ = 0;  ///< in force
  bool ending_ = false;
  bool over_ = false;
  std::atomic<bool> stop_asked_ = false, stop_expected_ = false;
  std::optional<breakdown> failure_;
  bool failed_itself_ = false;  ///< by no fault of others
  server_stats stats_;

  std::map<std::uint64_t, std::unique_ptr<session>> sessions_;
  past_sessions past_;
  process_usage usage_;
  net::network::clock::time_point weighed_{};  ///< when the memory was, for the stats
  bool some_are_over_ = false;
  enrolments enrolments_;
  std::map<std::uint32_t, std::vector<worker_id>> workers_of_;  ///< by process, in this stage
  std::map<worker_id, waiting_reads> waiting_;
  std::vector<worker_id> released_;
  std::vector<session*> touched_;
  std::shared_ptr<frames_over> over_there_ = std::make_shared<frames_over>();
  std::vector<std::byte> meta_;   ///< of the reply that is being sent
  std::vector<std::byte> coded_;  ///< its values

  net::doorkeeper door_;
  std::unique_ptr<net::listener> listener_;
  net::refusal_log refusals_{bound().text()};
  coordinator_link coordinator_;
  wait_watch watch_;

  // while a large shard is built
  std::vector<wire::control_message> early_;  ///< what the coordinator has said
  std::unique_ptr<shard> built_;              ///< what is to be served
  std::exception_ptr not_built_;              ///< why it could not be
  std::atomic<bool> is_built_ = false;        ///< or has failed: nobody has seen it yet
  std::unique_ptr<running_thread> builder_;
};

}  // namespace rubato::detail
