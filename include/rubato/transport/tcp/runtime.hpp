// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/core/null_mutex.hpp"
#include "rubato/metrics/run_report.hpp"
#include "rubato/transport/concepts.hpp"
#include "rubato/transport/first_failure.hpp"
#include "rubato/transport/run_stopped.hpp"
#include "rubato/transport/tcp/agreement.hpp"
#include "rubato/transport/tcp/coordinator_node.hpp"
#include "rubato/transport/tcp/process_cache.hpp"
#include "rubato/transport/tcp/questions.hpp"
#include "rubato/transport/tcp/server_node.hpp"
#include "rubato/transport/tcp/system.hpp"
#include "rubato/transport/tcp/worker_node.hpp"
#include "rubato/worker/worker.hpp"

namespace rubato {

struct tcp;

/// Runs a body on the workers of this process, among those of others; or serves them. Made by
/// `cluster`; see `tcp`.
template <protocol Protocol, table_spec... Tables>
class tcp_runtime final : detail::worker_node::runtime {
 public:
  using system_type = tcp_system<Protocol, Tables...>;
  using message = typename system_type::message;
  class endpoint_type;
  using worker_type = worker<endpoint_type, system_type>;

  tcp_runtime(tcp const& options, Protocol p, Tables... tables);
  ~tcp_runtime() override { system_.connect(nullptr); }
  tcp_runtime(tcp_runtime const&) = delete;
  tcp_runtime& operator=(tcp_runtime const&) = delete;

  [[nodiscard]] system_type const& servers() const noexcept { return system_; }
  /// Worker processes that the run begins with.
  [[nodiscard]] std::uint32_t workers() const noexcept { return place_.workers; }
  [[nodiscard]] net::role role() const noexcept { return place_.as; }
  /// This process's number among those of its role.
  [[nodiscard]] std::uint32_t rank() const noexcept { return node_ ? node_->number() : place_.rank.value_or(0); }

  run_report run(std::function<void(worker_type&)> body, std::function<double()> loss = {}) {
    static_assert(endpoint<endpoint_type, system_type>);
    if (!node_) return serve();
    if (busy_.exchange(true))
      throw usage_error(errc::bad_option, "run: a run of this cluster is under way already");
    idle_at_exit const idle{busy_};
    begin(std::move(body), std::move(loss));
    node_->tell(wire::ready{threads_, loss_ != nullptr});
    drive();
    finish_threads();
    failure_.rethrow();
    if (node_->is_broken()) node_->why_broken().raise();
    if (stop_failed_) throw_stop();
    return report();
  }

  /// Starts one more worker in this process, with the body of the run under way; returns its rank.
  /// @throws usage_error when no run is under way
  std::uint32_t add_worker() {
    std::lock_guard const one(adding_);
    std::unique_lock guard(lock_);
    if (running_ == 0) throw usage_error(errc::stale_handle, "add_worker: no run is under way");
    std::size_t const before = participants_.size();
    stage_id const stage = stage_;
    guard.unlock();
    node_->tell(wire::add_worker{stage});
    guard.lock();
    // It may still come when all others here have ended, and the next run may begin before this thread
    // sees the end of this one.
    changed_.wait(guard, [&] {
      return participants_.size() != before || stage_ != stage || stopping() || over_;
    });
    if (participants_.size() <= before || stage_ != stage)
      throw usage_error(errc::stale_handle, "add_worker: the run is ending");
    return participants_[before]->handle.rank();
  }

  /// Ends the run for all processes; in a process that serves, ends serving.
  void stop() {
    if (server_) return server_->stop();
    if (coordinator_) return coordinator_->stop();
    end_for_all(false, errc::bad_option, {});
  }

  [[nodiscard]] time_point now() const {
    return time_point(std::chrono::steady_clock::now() - began_);
  }

  /// For tests: breaks this process's connection to a server.
  void cut(server_id s) { node_->cut(s); }
  /// Where this server or coordinator listens.
  [[nodiscard]] net::address bound() const { return server_ ? server_->bound() : coordinator_->bound(); }

  class endpoint_type {
   public:
    endpoint_type(tcp_runtime& run, worker_id self)
        : run_(run), self_(self), questions_(run.system_, run.system_.sparse_max()) {}

    void post(server_id s, message m) {
      checkpoint();
      clock_index const next = m.stamp.next();
      if (run_.shared_) run_.shared_->posting(*reader_, s, next);
      run_.node_->post(s, std::make_shared<detail::commit_frame<message> const>(std::move(m)));
      if (run_.shared_) run_.shared_->posted(*reader_, s, next);
    }

    template <std::size_t I>
    void request(server_id s, table_tag<I>, read_header const& read,
                 read_slot<typename system_type::template store_type<I>>& slot) {
      asking([&] {
        if (run_.shared_) return run_.shared_->template request<I>(*reader_, s, read, slot);
        slot.arrived = slot.admitted = time_point{};
        auto& q = questions_.template of<I>(s);
        q.renew(read, slot, asked_);
        run_.node_->ask(s, q);
      });
    }
    void start() { run_.node_->flush(); }
    [[nodiscard]] bool scatters() const noexcept { return !run_.shared_; }
    [[nodiscard]] bool shares_reads() const noexcept { return run_.shared_.has_value(); }

    void request_cut(read_header const& read, cut_slot& slot) {
      asking([&] {
        slot.arrived = slot.admitted = time_point{};
        {
          std::lock_guard const mine(run_.node_->turns());
          asked_.cut = &slot;
          asked_.missing.fetch_add(1, std::memory_order_relaxed);
        }
        run_.node_->tell(wire::cut_request{read.from, read.clock, read.bound, slot.pull});
      });
    }
    void release_cut(worker_id) { run_.node_->tell(wire::cut_release{handle_->identity()}); }

    void wait() {
      bool complete = false;
      asking([&] {
        complete = run_.node_->wait_for(asked_, [this] { return run_.stopping() || run_.refused(self_); });
      });
      if (!complete) withdraw();
      checkpoint();
      if (auto const e = std::exchange(asked_.failure, nullptr)) std::rethrow_exception(e);
      if (refusal const r = asked_.refused.exchange(refusal::none); r != refusal::none)
        run_.node_->raise(r);
    }

    [[nodiscard]] time_point now() const { return run_.now(); }
    /// Compute has taken its own time.
    void charge(double) { checkpoint(); }
    void pause(time_point until) {
      run_.node_->turns().wait([this] { return run_.stopping(); },
                               run_.began_ + until.since_start());
      checkpoint();
    }

    void report_commit(clock_index now_at) { report({self_, now_at, {}}); }
    void report_loss(double loss) {
      if (!run_.loss_) report({self_, {}, loss});
    }
    [[nodiscard]] std::optional<typename system_type::pace_order> take_order() {
      if (!has_orders_.load(std::memory_order_acquire)) return std::nullopt;
      std::lock_guard const guard(run_.lock_);
      std::optional const first = orders_.front();
      orders_.erase(orders_.begin());
      has_orders_.store(!orders_.empty(), std::memory_order_relaxed);
      return first;
    }

    void checkpoint() const {
      if (run_.stopping()) throw run_stopped{};
      if (run_.any_refused_.load(std::memory_order_acquire)) run_.throw_refusal(self_);
    }

   private:
    friend class tcp_runtime;

    /// Who is thrown out while asking waits for no answer.
    template <class F>
    void asking(F f) {
      try {
        checkpoint();
        f();
      } catch (...) {
        withdraw();
        throw;
      }
    }
    void withdraw() {
      if (reader_) run_.shared_->forget(*reader_);
      run_.node_->withdraw(asked_);
    }

    void report(pace_report const& said) {
      checkpoint();
      run_.node_->tell(wire::pace_note{handle_->identity().stage, said});
    }

    tcp_runtime& run_;
    worker_id self_;
    std::optional<std::size_t> reader_;  ///< of the process cache, from its start on
    worker_type* handle_ = nullptr;
    detail::inquiry asked_;
    detail::read_questions<typename system_type::base> questions_;
    std::vector<typename system_type::pace_order> orders_;
    std::atomic<bool> has_orders_ = false;
  };

 private:
  struct participant {
    participant(tcp_runtime& run, sender self, std::uint32_t count_of_run)
        : link(run, self.worker),
          handle(link, run.system_, self, self.worker.value(), run.seed_),
          count(count_of_run) {
      link.handle_ = &handle;
    }
    endpoint_type link;
    worker_type handle;
    std::uint32_t count;
    std::atomic<bool> may_start = false;
    starting_point start{};
  };
  struct idle_at_exit {
    std::atomic<bool>& busy;
    ~idle_at_exit() { busy = false; }
  };

  tcp_runtime(net::deployment const& place, std::uint32_t threads, std::uint64_t seed,
              std::uint64_t sparse_max, bool background, Protocol p, Tables... tables)
      : place_(place),
        threads_(threads),
        seed_(seed),
        system_(sparse_max, std::move(p), place.servers, std::move(tables)...) {
    std::string const agreed = detail::agreement(system_);
    switch (place_.as) {
      case net::role::worker:
        node_ = std::make_unique<detail::worker_node>(static_cast<detail::worker_node::runtime&>(*this),
                                                       place_, agreed, background);
        system_.connect(node_.get());
        // A synchronized read is of a cut of its own.
        if (threads_ > 1 && !system_type::synchronized) shared_.emplace(system_, *node_, sparse_max);
        if (node_->welcome().sends_initial_values) detail::send_initial_values(system_, *node_);
        break;
      case net::role::server:
        server_ = std::make_unique<detail::server_node<typename system_type::base>>(
            system_, agreed, place_, sparse_max);
        break;
      case net::role::coordinator:
        coordinator_ = std::make_unique<detail::coordinator_node>(
            place_, detail::control_options<typename system_type::base>(system_, place_), agreed);
        break;
    }
    system_.forget_initial_values();
  }

  [[nodiscard]] bool stopping() const noexcept { return stopping_.load(std::memory_order_acquire); }

  run_report serve() {
    if (server_) server_->run();
    else coordinator_->run();
    return {};
  }

  // ---- a run

  void begin(std::function<void(worker_type&)> body, std::function<double()> loss) {
    if (shared_) shared_->begin_stage();
    std::lock_guard const guard(lock_);
    participants_.clear();
    refusals_.clear();
    any_refused_ = false;
    stopping_ = node_->is_broken();
    stop_failed_ = false;
    early_end_.reset();
    over_.reset();
    launched_ = 0;
    failure_.forget();
    body_ = std::move(body);
    loss_ = std::move(loss);
  }

  /// Waits for the coordinator, starts threads as it says, and deals with it once all have ended.
  void drive() {
    std::unique_lock guard(lock_);
    while (true) {
      while (launched_ < participants_.size()) launch(guard, participants_[launched_++]);
      if (node_->is_broken() && running_ == 0) break;
      if (over_) break;
      if (early_end_ && !participants_.empty()) {
        wire::end_run said = *std::exchange(early_end_, std::nullopt);
        said.stage = stage_;
        guard.unlock();
        node_->tell(said);
        guard.lock();
        continue;
      }
      if (!participants_.empty() && running_ != 0) {
        changed_.wait(guard);  // a worker that waits serves the links
        continue;
      }
      guard.unlock();  // nobody else does
      node_->turns().wait([this] { return has_news_.exchange(false) || node_->is_broken(); });
      guard.lock();
    }
    end_loss_thread(guard);
  }

  void launch(std::unique_lock<std::mutex>& guard, std::shared_ptr<participant> p) {
    try {
      live_threads_.emplace_back([this, p] {
        live(*p);
        leave(*p);
      });
    } catch (...) {  // no thread to be had: all others would wait for a worker that never runs
      guard.unlock();
      fail(std::current_exception());
      leave(*p);
      guard.lock();
    }
  }

  void live(participant& p) {
    try {
      node_->turns().wait([&] { return p.may_start.load(std::memory_order_acquire) || stopping(); });
      if (p.may_start) {
        if (shared_) p.link.reader_ = shared_->enlist(p.link.asked_, p.start.clock);
        p.handle.start(p.start, p.count);
        body_(p.handle);
        p.handle.finish();
      }
    } catch (run_stopped const&) {
    } catch (...) {
      fail(std::current_exception());
    }
  }

  void leave(participant& p) {
    p.link.withdraw();  // a prefetch may be under way
    p.handle.end();
    try {
      node_->settle();  // so that all servers drop it at the same clock, whatever becomes of this process
      node_->tell(wire::worker_ended{p.handle.identity().stage, p.handle.id(), p.handle.clock(),
                                     p.handle.metrics()});
    } catch (...) {
      fail(std::current_exception());
    }
    {
      std::lock_guard const guard(lock_);
      --running_;
    }
    changed_.notify_all();
  }

  void fail(std::exception_ptr e) {
    std::string sentence = "a body threw something that is no std::exception";
    errc code = errc::stopped;
    try {
      std::rethrow_exception(e);
    } catch (error const& known) {
      code = known.code();
      sentence = known.what();
    } catch (std::exception const& other) {
      sentence = other.what();
    } catch (...) {
    }
    {
      std::lock_guard const guard(lock_);
      failure_.note(std::move(e));
    }
    end_for_all(true, code, "worker process " + std::to_string(rank()) + ": " + sentence);
  }

  void end_for_all(bool failed, errc code, std::string const& sentence) {
    stage_id stage{};
    {
      std::lock_guard const guard(lock_);
      stage = stage_;
      stopping_ = true;
      // Before the run has begun here, its number is not known.
      if (participants_.empty()) early_end_ = wire::end_run{{}, failed, code, sentence};
    }
    node_->tell(wire::end_run{stage, failed, code, sentence});
    wake();
  }

  void wake() {
    { std::lock_guard const guard(lock_); }
    changed_.notify_all();
    node_->turns().wake();
  }

  void finish_threads() {
    for (auto& t : live_threads_) t.join();
    live_threads_.clear();
  }

  [[noreturn]] void throw_stop() {
    if (stop_code_ == errc::lost) throw lost_error(stop_sentence_);
    throw error(stop_code_, "the run was ended by another process: " + stop_sentence_);
  }

  [[nodiscard]] run_report report() {
    run_report r;
    r.elapsed = over_->elapsed;
    r.updates = over_->updates;
    r.workers = over_->workers;
    r.servers = over_->servers;
    r.versions_peak = over_->versions_peak;
    r.crashes = over_->crashes;
    for (std::size_t i = 0; i < over_->change_times.size(); ++i)
      r.pace_changes.push_back({over_->change_times[i], over_->change_values.at(i),
                                reasons_.insert(over_->change_reasons.at(i)).first->c_str()});
    return r;
  }

  // ---- what the coordinator says; in the turn of whoever heard it

  void told(wire::control_message const& m) override {
    std::visit([this](auto const& one) { this->on(one); }, m);
  }
  template <class Other>
  void on(Other const&) {
    throw wire::frame_error("the coordinator said something that is not for a worker process");
  }
  void on(wire::run_begins const& m) {
    std::lock_guard const guard(lock_);
    if (participants_.empty() || stage_ != m.stage) {
      stage_ = m.stage;
      began_ = std::chrono::steady_clock::now() - m.now.since_start();
    }
    for (worker_id const w : m.workers) {
      auto p = std::make_shared<participant>(
          *this, sender{w, incarnation_id{m.incarnation}, m.stage}, m.count);
      participants_.push_back(std::move(p));
      ++running_;
    }
    if (m.evaluates_loss && !loss_thread_.joinable() && loss_)
      loss_thread_ = std::thread([this] { evaluate_losses(); });
    news();
  }
  void on(wire::worker_starts const& m) {
    if (auto const p = find(m.stage, m.worker)) {
      p->start = m.at;
      p->may_start.store(true, std::memory_order_release);
    }
  }
  void on(wire::stop_run const& m) {
    std::lock_guard const guard(lock_);
    if (m.stage != stage_) return;
    if (m.failed && !stopping_) {
      stop_failed_ = true;
      stop_code_ = m.code;
      stop_sentence_ = m.sentence;
    }
    stopping_ = true;
    news();
  }
  void on(wire::run_over const& m) {
    std::lock_guard const guard(lock_);
    if (m.stage != stage_) return;
    over_ = m;
    news();
  }
  void on(wire::pace_command const& m) {
    if constexpr (system_type::conducted) {
      typename system_type::pace_order order;
      if (m.order.size() != sizeof order)
        throw wire::frame_error("an order of " + std::to_string(m.order.size()) +
                                " bytes came, expected " + std::to_string(sizeof order));
      std::memcpy(&order, m.order.data(), sizeof order);
      auto const p = find(m.stage, m.to);
      if (!p) return;
      std::lock_guard const guard(lock_);
      p->link.orders_.push_back(order);
      p->link.has_orders_.store(true, std::memory_order_release);
    }
  }
  void on(wire::sample_loss const& m) {
    std::lock_guard const guard(lock_);
    if (m.stage != stage_) return;
    loss_wanted_ = true;
    changed_.notify_all();
  }
  void on(wire::cut_grant const& m) {
    auto const p = find(m.to.stage, m.to.worker);
    if (!p || p->link.asked_.cut == nullptr) return;
    cut_slot& slot = *std::exchange(p->link.asked_.cut, nullptr);
    slot.cut = std::make_shared<commit_cut const>(m.below, m.c_min);
    slot.admitted = slot.arrived + m.held;
    p->link.asked_.missing.fetch_sub(1, std::memory_order_release);
  }

  void commit_refused(worker_id w, stage_id stage, server_id by, refusal why) override {
    std::lock_guard const guard(lock_);
    if (stage != stage_ || stopping_) return;
    refusals_[w] = "server " + std::to_string(by.value()) + ": a commit was refused, for " + to_string(why);
    any_refused_.store(true, std::memory_order_release);
  }
  void broken(std::string const&) override {
    std::lock_guard const guard(lock_);
    stopping_ = true;
    news();
  }

  /// @pre `lock_` is held
  void news() {
    has_news_ = true;
    changed_.notify_all();
  }
  /// Shared, because the next run may begin meanwhile.
  [[nodiscard]] std::shared_ptr<participant> find(stage_id stage, worker_id w) {
    std::lock_guard const guard(lock_);
    if (stage != stage_) return nullptr;
    auto const at = std::ranges::find_if(participants_, [&](auto const& p) { return p->handle.id() == w; });
    return at == participants_.end() ? nullptr : *at;
  }

  [[nodiscard]] bool refused(worker_id w) {
    if (!any_refused_.load(std::memory_order_acquire)) return false;
    std::lock_guard const guard(lock_);
    return refusals_.contains(w);
  }
  void throw_refusal(worker_id w) {
    std::string sentence;
    {
      std::lock_guard const guard(lock_);
      auto const at = refusals_.find(w);
      if (at == refusals_.end()) return;
      sentence = at->second;
    }
    throw error(errc::refused, sentence);
  }

  // ---- the loss, for a pace that goes by it

  void evaluate_losses() {
    std::unique_lock guard(lock_);
    while (true) {
      changed_.wait(guard, [this] { return loss_wanted_ || losses_end_ || stopping(); });
      if (losses_end_ || stopping()) return;
      loss_wanted_ = false;
      stage_id const stage = stage_;
      guard.unlock();
      try {
        time_point const at = now();
        double const loss = loss_();
        node_->tell(wire::loss_sample{stage, at, loss});
      } catch (...) {
        fail(std::current_exception());
      }
      guard.lock();
    }
  }
  void end_loss_thread(std::unique_lock<std::mutex>& guard) {
    losses_end_ = true;
    changed_.notify_all();
    guard.unlock();
    if (loss_thread_.joinable()) loss_thread_.join();
    guard.lock();
    losses_end_ = loss_wanted_ = false;
  }

  net::deployment place_;
  std::uint32_t threads_;
  std::uint64_t seed_;
  system_type system_;
  std::unique_ptr<detail::server_node<typename system_type::base>> server_;
  std::unique_ptr<detail::coordinator_node> coordinator_;

  std::function<void(worker_type&)> body_;
  std::function<double()> loss_;
  std::chrono::steady_clock::time_point began_{};
  std::vector<std::thread> live_threads_;
  std::thread loss_thread_;
  std::set<std::string> reasons_;  ///< reports point to them

  std::mutex adding_;
  mutable std::mutex lock_;  ///< what follows
  std::condition_variable changed_;
  std::vector<std::shared_ptr<participant>> participants_;
  std::map<worker_id, std::string> refusals_;
  std::size_t launched_ = 0;
  std::uint32_t running_ = 0;
  stage_id stage_{};
  detail::first_failure failure_;
  std::optional<wire::end_run> early_end_;  ///< asked for before the run has begun here
  bool stop_failed_ = false;
  errc stop_code_{};
  std::string stop_sentence_;
  std::optional<wire::run_over> over_;
  bool loss_wanted_ = false;
  bool losses_end_ = false;

  std::atomic<bool> has_news_ = false;
  std::atomic<bool> any_refused_ = false;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> busy_ = false;

  std::unique_ptr<detail::worker_node> node_;  ///< it may call until it is gone
  std::optional<detail::process_cache<typename system_type::base>> shared_;  ///< of several threads
};

}  // namespace rubato
