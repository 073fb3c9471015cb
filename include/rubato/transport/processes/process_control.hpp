// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/core/time.hpp"
#include "rubato/net/deployment.hpp"
#include "rubato/protocol/rules.hpp"
#include "rubato/run/run_control.hpp"
#include "rubato/transport/processes/coordination.hpp"
#include "rubato/wire/control.hpp"

namespace rubato {

/// The coordinator of a run of several processes: who is there, when a run begins and ends, and
/// what becomes of it when somebody is lost. A state machine without I/O: what processes say comes
/// in, what they are to be told goes out. Not synchronized.
///
///     gathering ── all servers and workers are there, among them worker 0, which has sent the servers
///                  their initial values when it is ready ──> idle
///
/// Until the first run begins, who has gone is replaced by the next with its number, and what all must agree on
/// (protocol and tables) is what those say who are there. From then on:
///
///     idle ── every worker process is ready ──> running: servers begin a stage, workers join
///     running ── every worker has ended or is lost ──> ending: servers say when all is in
///     ending ── all servers have ──> idle, and every process hears what the run measured
///
/// A process that comes later joins the run under way, or the next one, as long as some are left who
/// took part in the last. A server that is lost ends everything; of a worker the user says whether
/// that ends the run for all.
class process_control final : public coordination, run_control::carrier {
 public:
  struct options {
    std::uint32_t workers = 1;  ///< processes that a run begins with
    std::uint32_t servers = 1;
    net::on_loss when_lost = net::on_loss::end;
    /// By protocol, whether its runs are in single-machine mode: the process that has the tables then cannot be
    /// lost, as a server cannot. None where the list ends.
    std::vector<bool> moves_tables{};
    /// What all must agree on, where the coordinator itself has it; empty: what those say who are there.
    std::string agreed{};
    std::chrono::milliseconds silence{};  ///< that of `net::deployment`, the same on all
  };

  process_control(std::span<rules const> protocols, options const& o);
  process_control(process_control const&) = delete;
  process_control& operator=(process_control const&) = delete;

  /// @param secret for a worker process: it and the servers are told, and nobody else
  [[nodiscard]] enrolment enroll(wire::registration const& r, wire::secret const& secret) override;
  [[nodiscard]] bool was_here(wire::registration const& r) const noexcept override;
  [[nodiscard]] bool agrees(wire::registration const& r) const override { return r.agreed == agreed_ || is_empty(); }
  /// Always of a worker, of a server until workers know where it listens.
  [[nodiscard]] bool is_replaceable(place who) const noexcept override;
  void receive(place from, wire::control_message const& message, time_point now) override;
  void set_connected(place who, bool is_connected, time_point now) override;
  void lose(place who, std::string const& reason, bool expected, time_point now) override;
  void give_up(std::string const& sentence) override { fail(sentence); }
  /// The conductor's time has come.
  void tick(time_point now) override;
  [[nodiscard]] time_point next_tick() const override;
  [[nodiscard]] std::vector<outgoing> take() override { return std::exchange(out_, {}); }
  [[nodiscard]] bool is_over() const noexcept override { return over_; }
  [[nodiscard]] std::string const& failure() const noexcept override { return failure_; }
  [[nodiscard]] bool is_complete() const noexcept override;
  [[nodiscard]] std::string attendance() const override;
  [[nodiscard]] bool is_starting() const noexcept override;
  [[nodiscard]] std::string awaited() const override;
  [[nodiscard]] std::optional<time_point> waits_since() const override;
  [[nodiscard]] std::string who_waits() const override;
  [[nodiscard]] stage_id stage() const noexcept override { return stage_; }
  /// Whether a process waits for a run to begin.
  [[nodiscard]] bool is_awaited() const noexcept;
  [[nodiscard]] bool is_running() const noexcept override { return phase_ == phase::running; }

 private:
  enum class phase : std::uint8_t { idle, running, ending };
  enum class standing : std::uint8_t { joining, live, over };
  /// How a process has gone: it said that it is done, it may be replaced before the first run, or there is a reason
  /// for which the others cannot go on with it.
  enum class parting : std::uint8_t { done, gone, failed };
  struct server {
    std::string listens;
    bool here = false;
    bool connected = true;
    bool stage_over = false;
    std::uint32_t pid = 0;
    std::uint64_t life = 0;  ///< that no other process with this number has
  };
  struct process {
    std::uint32_t incarnation = 0;
    bool here = false;
    bool connected = true;
    bool welcomed = false;
    bool ready = false;
    bool takes_part = false;  ///< in the stage under way
    bool has_finished = false;  ///< a stage, in this life
    bool is_given_up = false;   ///< the others go on without it, and its link is still there
    bool is_done = false;       ///< it has said goodbye
    bool has_loss = false;
    std::uint32_t threads = 0;
    wire::ready wants{};  ///< of the run that it is ready for
    std::uint32_t pid = 0;
    std::uint64_t life = 0;  ///< that no other process with this number has
    std::vector<worker_id> workers = {};  ///< in the stage under way, an earlier life's too
    wire::secret secret = {};             ///< of this life
  };
  struct member {
    std::uint32_t process = 0;
    standing now = standing::joining;
    clock_index start{};  ///< once it is live; it may end before it has heard of it
    worker_metrics metrics{};
  };

  /// As a registration says it.
  using wanted_place = std::pair<net::role, std::optional<std::uint32_t>>;

  static constexpr place worker_place(std::uint32_t number) { return {net::role::worker, number}; }
  static constexpr place server_place(std::uint32_t number) { return {net::role::server, number}; }
  [[noreturn]] static void refuse(std::string const& sentence);
  /// @throws wire::frame_error unless `allowed`
  static void expect(bool allowed, place from, char const* what);

  void agree(wire::registration const& r);
  void note_turned_away(wanted_place const& at, std::string const& sentence);
  [[nodiscard]] bool is_empty() const noexcept;
  [[nodiscard]] std::string those_here() const;
  [[nodiscard]] enrolment enroll_server(wire::registration const& r);
  [[nodiscard]] enrolment enroll_worker(wire::registration const& r, wire::secret const& secret);
  [[nodiscard]] std::uint32_t free_number() const;
  [[nodiscard]] std::string absent_servers() const;
  [[nodiscard]] std::string absent_workers() const;
  [[nodiscard]] std::string unready_workers() const;
  [[nodiscard]] std::string cut_off_servers() const;
  [[nodiscard]] std::string cut_off_workers() const;
  [[nodiscard]] bool is_anybody_cut_off() const noexcept;
  [[nodiscard]] std::uint32_t workers_here() const noexcept;
  [[nodiscard]] bool is_here(std::uint32_t number) const noexcept;
  void welcome_all();

  // what processes say
  void on(place from, wire::ready const& m, time_point now);
  void on(place from, wire::add_worker const& m, time_point now);
  void on(place from, wire::worker_ended const& m, time_point now);
  void on(place from, wire::end_run const& m, time_point now);
  void on(place from, wire::pace_note const& m, time_point now);
  void on(place from, wire::loss_sample const& m, time_point now);
  void on(place from, wire::tables_wanted const& m, time_point now);
  void on(place from, wire::cut_request const& m, time_point now);
  void on(place from, wire::cut_release const& m, time_point now);
  void on(place from, wire::farewell const& m, time_point now);
  void on(place from, wire::order_done const& m, time_point now);
  void on(place from, wire::stage_over const& m, time_point now);
  void on(place from, wire::progress_note const& m, time_point now);
  template <class Message>
  void on(place from, Message const&, time_point);

  void begin_when_ready(time_point now);
  [[nodiscard]] bool lacks_workers() const noexcept;
  void put_off(bool stopped);
  void pass_over_those_behind();
  template <class Which>
  void pass_over(wire::run_over said, Which which);
  [[nodiscard]] bool is_new(std::uint32_t number) const;
  void begin_stage(time_point now);
  struct stray {
    std::uint32_t process;
    std::string why;
  };
  [[nodiscard]] std::optional<stray> find_stray() const;
  void dismiss(std::uint32_t number, errc code, std::string const& sentence, parting how, time_point now);
  void admit(std::uint32_t process, std::vector<worker_id> const& workers, time_point now);
  [[nodiscard]] std::vector<worker_id> new_workers(std::uint32_t number, std::uint32_t count);
  void join_late(time_point now);
  void started(membership_order const& o, time_point now);
  void end_worker(worker_id w);
  void end_when_over();
  void finish_stage(time_point now);
  void lose_worker(worker_id w, time_point now);
  void lose_server(std::uint32_t number, std::string const& reason);
  void lose_process(std::uint32_t number, std::string const& reason, parting how, time_point now);
  void leave_stage(std::uint32_t number, std::string const& sentence, time_point now);
  [[nodiscard]] bool is_left() const noexcept;
  void close_when_left();
  [[nodiscard]] bool can_run_again() const noexcept;
  void note_lost(std::uint32_t number);
  [[nodiscard]] bool has_lost_more() const;
  [[nodiscard]] std::vector<std::uint32_t> lost_now() const;
  [[nodiscard]] bool is_at_work(process const& p) const;
  [[nodiscard]] bool has_tables(process const& p) const;
  [[nodiscard]] bool moves_tables() const;
  void ask_for_loss(time_point now);
  [[nodiscard]] std::optional<std::uint32_t> find_evaluator() const;
  [[nodiscard]] bool awaits_loss() const;
  void fail(std::string const& sentence);
  void stop_as_asked();
  void stop(bool failed, errc code, std::string const& sentence);

  // run_control::carrier
  void order(membership_order const& o) override;
  void start(worker_id w, starting_point const& at) override;
  void grant(worker_id w, shared_cut const& cut, duration held) override;
  void mark(shared_cut const& below) override;
  void command(worker_id w, conductor::order const& order) override;

  void tell(place to, wire::control_message message) { out_.push_back({to, std::move(message)}); }
  void tell_servers(wire::control_message const& message);
  /// The processes of the run under way.
  void tell_run(wire::control_message const& message);
  void tell_workers(wire::control_message const& message);
  /// The run's time.
  [[nodiscard]] time_point since_begin(time_point now) const { return time_point(now - began_); }
  [[nodiscard]] bool in_stage(stage_id s) const noexcept {
    return s == stage_ && phase_ != phase::idle;
  }
  [[nodiscard]] member& member_of(place from, worker_id w);

  options options_;
  std::string agreed_;  ///< by those who are here
  /// Before the first run, and not here since: who did not agree.
  std::map<wanted_place, std::string> turned_away_;
  std::map<place, std::string> gone_;  ///< before the first run, and not replaced: why
  run_control control_;
  std::vector<server> servers_;
  std::map<std::uint32_t, process> processes_;
  std::vector<member> members_;  ///< by worker, of the stage under way
  struct unconfirmed {
    membership_order order;
    std::vector<bool> missing;  ///< by server: it has yet to carry it out
  };
  std::map<epoch_id, unconfirmed> unconfirmed_;  ///< orders
  phase phase_ = phase::idle;
  stage_id stage_{0};
  wire::ready wanted_{};          ///< what the stage is to be
  std::uint32_t begun_with_ = 0;  ///< workers of the stage
  std::optional<std::uint32_t> keeper_;  ///< that has tables which the servers do not have, from a stage on
  std::uint32_t active_ = 0;      ///< workers that have not ended
  time_point began_{};
  time_point ended_{};
  bool gathered_ = false;     ///< all have been there at one time
  bool initialized_ = false;  ///< servers have their initial values
  bool stopping_ = false;
  bool failed_ = false;       ///< and that for a failure
  bool was_put_off_ = false;  ///< a run: all have been there
  bool someone_is_done_ = false;  ///< with the last stage, and has left
  std::string ended_by_;          ///< the loss that ended the last stage
  std::string last_loss_;         ///< of a process that took part in it, unless others have come to its end
  std::optional<std::uint32_t> sampler_;  ///< the process that has been asked for a loss
  time_point sample_due_{};               ///< for which moment
  bool over_ = false;
  std::string failure_;
  wire::run_over report_{};
  std::vector<std::uint32_t> known_lost_;  ///< as the last report said
  std::vector<outgoing> out_;
};

}  // namespace rubato
