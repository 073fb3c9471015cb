// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <exception>
#include <numeric>
#include <utility>
#include <variant>

#include "rubato/core/error.hpp"
#include "rubato/transport/processes/outbound_frames.hpp"
#include "rubato/transport/processes/worker_process.hpp"

namespace rubato::detail {

struct worker_process::worker_thread final : worker_participant {
  worker_thread(worker_process& run, sender const& self)
      : worker_participant(run, self), process(run), link(run, self) {}
  worker_thread(worker_thread const&) = delete;
  worker_thread& operator=(worker_thread const&) = delete;
  ~worker_thread() override { detach(); }
  /// In single-machine mode it is nobody's worker, and decorators are for those that are.
  void attach() { worker_participant::attach(link, process.options_.seed, !process.kept_); }
  void live() override {
    process.links_->turns().wait(
        [this] { return may_start.load(std::memory_order_acquire) || process.unwinds(); });
    if (!may_start) return;
    link.enlist(start.clock);
    worker_participant::live();
  }
  void end() override {
    link.withdraw();  // a prefetch may be under way
    worker_participant::end();
  }

  worker_process& process;
  process_endpoint link;
  std::atomic<bool> may_start = false;
};

// ---- a run

worker_process::worker_process(tcp const& options, run_setup setup)
    : worker_run(beside_local_models(setup), options.place.servers), options_(options) {
  if (moves_tables(setup))
    local_ = std::make_unique<local_model>(setup, options_.threads, options_.seed, options_.sparse_max);
  auto network = options_.make_network();
  source_ = &network->threads();
  changed_ = source_->make_condition();
  links_ = std::make_unique<worker_links>(static_cast<worker_links::user&>(*this), std::move(network), options_.place,
                                          plan().agreement(), options_.background);
  links_->lend(plan(), options_.threads);
  if (options_.threads > 1) shared_.emplace(plan(), *links_, options_.sparse_max, [this] { return now(); });
  if (links_->welcome().sends_initial_values) send_initial_values();
  plan_.forget_initial_values();
}

worker_process::~worker_process() {
  for (auto const& p : participants_) p->detach();  // while there still are links
  // A run that failed has told the others itself.
  if (ran_well_ && std::uncaught_exceptions() > exceptions_)
    links_->leave_by("it was left by an exception after a run");
}

/// Waits until the servers have them.
void worker_process::send_initial_values() {
  for (std::size_t i = 0; i < plan().tables().size(); ++i)
    for (std::uint32_t s = 0; s < plan().servers(); ++s)
      if (update values = plan().table(i).initial_values(server_id{s}); !values.empty())
        links_->post_and_wait(server_id{s}, std::make_shared<values_frame const>(
                                                static_cast<std::uint16_t>(i), std::move(values)));
}

run_report worker_process::run(run_request request) {
  life::begin();
  ran_well_ = false;
  auto const kept_before = kept_;
  try {
    begin(in_single_machine_mode(std::move(request)));
    auto const& placement = request_.placement;
    links_->tell(wire::ready{.threads = threads_here_,
                             .has_loss = evaluates_loss(),
                             .protocol = static_cast<std::uint32_t>(protocol()),
                             .changes_tables = request_.changes_tables,
                             .step = request_.step,
                             .workers = std::accumulate(placement.begin(), placement.end(), 0U),
                             .recover = request_.recover,
                             .keeper = kept_ && kept_->in_debt ? std::optional(kept_->node) : std::nullopt,
                             .run = request_.step == 0 ? run_number() : 0,
                             .iterations = request_.iterations,
                             .stops = is_to_stop(request_)});
    drive();
  } catch (...) {
    fail(std::current_exception());
  }
  end_loss_thread();
  join_threads();
  life::end();
  // Who is lost right after a run ends the next one: this was over.
  bool const is_over = [this] {
    std::lock_guard const guard(lock_);
    return over_.has_value();
  }();
  if (!is_over) links_->why_broken().raise();
  run_report r = report();
  if (r.completed == completion::not_begun) kept_ = kept_before;
  ran_well_ = true;
  return r;
}

void worker_process::begin(run_request request) {
  accept(std::move(request));
  auto const& placement = request_.placement;
  if (placement.size() > options_.place.workers)
    throw option_error("run: a placement on " + std::to_string(placement.size()) + " nodes, expected at most " +
                       std::to_string(options_.place.workers) + " worker processes");
  threads_here_ = options_.threads;
  if (!placement.empty()) threads_here_ = rank() < placement.size() ? placement[rank()] : 0;
  shares_ = shared_ && plan().shares_reads(protocol()) && !kept_;
  if (shared_) shared_->cache.begin_stage(protocol());
  {
    std::lock_guard const guard(lock_);
    participants_.clear();
    refusals_.clear();
    any_refused_ = false;
    early_end_.reset();
    stopped_.reset();
    fails_elsewhere_ = false;
    settles_tables_ = kept_.has_value();
    over_.reset();
    has_destination_ = false;
    launched_ = 0;
    begun_ = false;
  }
  if (links_->is_broken()) life::stop();
}

/// Waits for the coordinator, starts threads as it says, and deals with it once all have ended.
void worker_process::drive() {
  std::unique_lock guard(lock_);
  while (true) {
    if (early_end_ && begun_) {  // before anybody here ends for it
      wire::end_run said = *std::exchange(early_end_, std::nullopt);
      said.stage = stage_;
      guard.unlock();
      links_->tell(said);
      guard.lock();
    }
    while (launched_ < participants_.size()) launch(guard, participants_[launched_++]);
    if (over_) return;
    if (links_->is_broken() && running_ == 0) break;
    if (!participants_.empty() && running_ != 0) {
      changed_->wait(guard);  // a worker that waits serves the links
      continue;
    }
    guard.unlock();  // nobody else does
    links_->turns().wait([this] { return has_news_.exchange(false) || links_->is_broken(); });
    guard.lock();
  }
  // Servers end after the run, but may be heard before the coordinator, which has said that it is over.
  guard.unlock();
  links_->hear_what_is_there();
}

void worker_process::launch(std::unique_lock<std::mutex>& guard, std::shared_ptr<worker_thread> p) {
  guard.unlock();
  enter();
  try {
    p->attach();
    threads_.push_back(source_->start([this, p] { live(*p); }));
  } catch (...) {  // all others would wait for a worker that never runs
    fail(std::current_exception());
    left(*p);
    cancel();
  }
  guard.lock();
}

/// All that it has sent arrives first, so that all servers drop it at the same clock, whatever becomes of
/// this process.
void worker_process::left(worker_participant& p) {
  try {
    links_->settle();
    wire::worker_ended said{p.self().stage, p.self().worker, {}, {}};
    if (p.attached()) {
      said.clock = p.handle().clock();
      said.metrics = p.handle().metrics();
    }
    links_->tell(said);
  } catch (...) {
    fail(std::current_exception());
  }
  {
    std::lock_guard const guard(lock_);
    --running_;
  }
  changed_->notify_all();
}

void worker_process::join_threads() {
  for (auto& t : threads_) t->join();
  threads_.clear();
}

std::uint32_t worker_process::add_worker() {
  std::lock_guard const one(adding_);
  std::unique_lock guard(lock_);
  if (running_ != 0 && kept_) {  // the others know of one worker, whatever there are
    guard.unlock();
    return local_->add_worker();
  }
  if (running_ == 0) throw usage_error(errc::stale_handle, "add_worker: no run is under way");
  std::size_t const before = participants_.size();
  stage_id const stage = stage_;
  guard.unlock();
  links_->tell(wire::add_worker{stage});
  guard.lock();
  // It may still come when all others here have ended, and the next run may begin before this thread
  // sees the end of this one.
  changed_->wait(guard, [&] {
    return participants_.size() != before || stage_ != stage || stopping() || over_;
  });
  if (participants_.size() <= before || stage_ != stage)
    throw usage_error(errc::stale_handle, "add_worker: the run is ending");
  return participants_[before]->self().worker.value();
}

// ---- its end

/// The others are told first: who ends here for it must not seem to have ended by itself.
void worker_process::stop() {
  try {
    end_for_all(false, errc::bad_option, {});
  } catch (...) {
    life::stop();
    throw;
  }
  life::stop();
}

/// Whoever has the tables of a stage in single-machine mode, or brings them, does so to the end when that is stopped:
/// only bodies on them are unwound. Not where something has failed.
bool worker_process::unwinds() const {
  if (!stopping()) return false;
  return !settles_tables_ || fails_elsewhere_ || has_failed() || links_->is_broken();
}

void worker_process::tell_failure(std::exception_ptr const& why) noexcept {
  try {
    auto const what = breakdown::by(why);
    end_for_all(true, what.code(), "worker process " + std::to_string(rank()) + ": " + what.sentence());
  } catch (...) {  // others will miss this process
  }
}

void worker_process::end_for_all(bool failed, errc code, std::string const& sentence) {
  stage_id stage{};
  {
    std::lock_guard const guard(lock_);
    stage = stage_;
    // Before the run has begun here, its number is not known.
    if (!begun_) early_end_ = wire::end_run{{}, failed, code, sentence};
  }
  links_->tell(wire::end_run{stage, failed, code, sentence});
}

void worker_process::wake_all() noexcept {
  { std::lock_guard const guard(lock_); }
  changed_->notify_all();
  if (local_) local_->stop();
  if (links_) links_->turns().wake();  // they may break while they are being made
}

run_report worker_process::report() {
  std::lock_guard const guard(lock_);
  if (stopped_) raise(*stopped_);
  if (local_report_) {  // more than the others know
    local_report_->elapsed = over_->elapsed;
    local_report_->crashes = over_->crashes;
    local_report_->lost_nodes = over_->lost_nodes;
    local_report_->completed = over_->completed;
    local_report_->stopped = over_->stopped;
    return *std::exchange(local_report_, std::nullopt);
  }
  run_report r;
  r.elapsed = over_->elapsed;
  r.updates = over_->updates;
  r.workers = over_->workers;
  r.servers = over_->servers;
  r.versions_peak = over_->versions_peak;
  r.crashes = over_->crashes;
  r.lost_nodes = over_->lost_nodes;
  r.completed = over_->completed;
  r.stopped = over_->stopped;
  for (std::size_t i = 0; i < over_->change_times.size(); ++i)
    r.pace_changes.push_back({over_->change_times[i], over_->change_values.at(i), over_->change_reasons.at(i)});
  return r;
}

// ---- what the coordinator says; in the turn of whoever heard it

void worker_process::told(wire::control_message const& m) {
  std::visit([this](auto const& one) { this->on(one); }, m);
}

template <class Other>
void worker_process::on(Other const&) {
  throw wire::frame_error("the coordinator said something that is not for a worker process");
}

void worker_process::on(wire::run_begins const& m) {
  std::lock_guard const guard(lock_);
  if (!begun_ || stage_ != m.stage) {
    begun_ = true;
    stage_ = m.stage;
    began_ = links_->now() - m.now.since_start();
  }
  for (worker_id const w : m.workers) {
    participants_.push_back(
        std::make_shared<worker_thread>(*this, sender{w, incarnation_id{m.incarnation}, m.stage}));
    participants_.back()->count = m.count;
    ++running_;
  }
  if (m.evaluates_loss && !loss_thread_ && evaluates_loss())
    loss_thread_ = source_->start([this] { evaluate_losses(); });
  news();
}

void worker_process::on(wire::worker_starts const& m) {
  if (auto const p = find(m.stage, m.worker)) {
    p->start = m.at;
    p->may_start.store(true, std::memory_order_release);
  }
}

void worker_process::on(wire::stop_run const& m) {
  {
    std::lock_guard const guard(lock_);
    if (m.stage != stage_) return;
    if (m.failed) {  // what has failed here comes first, see `life::end`
      stopped_ = m;
      fails_elsewhere_ = true;
    }
  }
  life::stop();
  std::lock_guard const guard(lock_);
  news();
}

void worker_process::on(wire::run_over const& m) {
  std::lock_guard const guard(lock_);
  // Of a run that failed here before, as a server was lost, it may be heard in the next one.
  bool const is_under_way = begun_ && m.stage == stage_;
  if (!is_under_way && m.completed != completion::not_begun) return;
  over_ = m;
  news();
}

void worker_process::on(wire::pace_command const& m) {
  if (auto const p = find(m.stage, m.to); p && plan().conducted(protocol())) p->link.give(m.order);
}

void worker_process::on(wire::sample_loss const& m) {
  std::lock_guard const guard(lock_);
  if (m.stage != stage_) return;
  loss_wanted_ = true;
  changed_->notify_all();
}

void worker_process::on(wire::send_tables const& m) {
  {
    std::lock_guard const guard(lock_);
    if (m.stage != stage_) return;
    destination_ = m;
  }
  has_destination_.store(true, std::memory_order_release);
}

void worker_process::on(wire::cut_grant const& m) {
  if (auto const p = find(m.to.stage, m.to.worker)) p->link.grant(m);
}

void worker_process::commit_refused(worker_id w, stage_id stage, server_id by, refusal why) {
  std::lock_guard const guard(lock_);
  if (stage != stage_ || unwinds()) return;
  refusals_[w] = "server " + std::to_string(by.value()) + ": a commit was refused, for " + to_string(why);
  any_refused_.store(true, std::memory_order_release);
}

/// `links_` may not be there yet; it wakes those who wait for answers itself.
void worker_process::broken(std::string const&) {
  note_stop();
  if (local_) local_->stop();  // its workers may need nobody for long
  std::lock_guard const guard(lock_);
  news();
}

/// @pre `lock_` is held
void worker_process::news() {
  has_news_ = true;
  changed_->notify_all();
}

/// Shared, because the next run may begin meanwhile.
std::shared_ptr<worker_process::worker_thread> worker_process::find(stage_id stage, worker_id w) {
  std::lock_guard const guard(lock_);
  if (stage != stage_) return nullptr;
  auto const at =
      std::ranges::find_if(participants_, [&](auto const& p) { return p->self().worker == w; });
  return at == participants_.end() ? nullptr : *at;
}

bool worker_process::is_refused(worker_id w) {
  if (!any_refused_.load(std::memory_order_acquire)) return false;
  std::lock_guard const guard(lock_);
  return refusals_.contains(w);
}

void worker_process::throw_if_refused(worker_id w) {
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

void worker_process::evaluate_losses() {
  std::unique_lock guard(lock_);
  while (true) {
    changed_->wait(guard, [this] { return loss_wanted_ || losses_end_ || stopping(); });
    if (losses_end_ || stopping()) return;
    loss_wanted_ = false;
    stage_id const stage = stage_;
    guard.unlock();
    try {
      time_point const at = now();
      double const loss = request_.loss();
      links_->tell(wire::loss_sample{stage, at, loss});
    } catch (...) {
      fail(std::current_exception());
    }
    guard.lock();
  }
}

void worker_process::end_loss_thread() {
  {
    std::lock_guard const guard(lock_);
    losses_end_ = true;
  }
  changed_->notify_all();
  if (auto const ended = std::exchange(loss_thread_, nullptr)) ended->join();
  std::lock_guard const guard(lock_);
  losses_end_ = loss_wanted_ = false;
}

}  // namespace rubato::detail
