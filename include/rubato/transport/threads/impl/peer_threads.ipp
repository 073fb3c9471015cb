// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <string>
#include <thread>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/core/run_stopped.hpp"
#include "rubato/core/start_thread.hpp"
#include "rubato/transport/threads/peer_threads.hpp"

namespace rubato {

namespace detail {

/// The end of a peer that is a thread.
class peer_threads::own_endpoint final : public peer_endpoint {
 public:
  own_endpoint(peer_threads& run, std::uint32_t rank)
      : run_(run), rank_(rank), mine_(run.boxes_[rank]), idle_until_(run.now()), polls_(run.poll_for_) {}

  void post(worker_id to, peer_message&& m) override {
    checkpoint();
    run_.send(worker_id{rank_}, to, std::move(m));
  }
  void wait() override {
    wait_for_messages();
    checkpoint();
    idle_until_ = now();
  }
  [[nodiscard]] bool is_near(worker_id) const noexcept override { return true; }
  [[nodiscard]] time_point now() const override { return run_.now(); }
  /// Computing has taken its own time already; a slowed peer sleeps for the rest.
  void charge(double) override {
    if (slow_motion& slowed = run_.slowed_[rank_]) {
      time_point const ended = now();
      {
        std::unique_lock guard(mine_.lock);
        mine_.awake.wait_for(guard, slowed.pause_after(ended - idle_until_), [&] { return run_.stopping(); });
      }
      slowed.paused_for(now() - ended);
    }
    idle_until_ = now();
    checkpoint();
  }
  void checkpoint() override {
    if (run_.stopping()) throw run_stopped{};
  }

 private:
  void wait_for_messages() {
    auto const is_over = [&] { return run_.node(rank_).can_go_on() || run_.stopping(); };
    std::unique_lock guard(mine_.lock);
    if (is_over()) return;
    mine_.waiting = true;
    guard.unlock();
    polls_.wait([&] { return mine_.called.load(std::memory_order_acquire) || run_.stopping(); },
                [&] { sleep_until(is_over); });
    guard.lock();
    mine_.waiting = false;
    mine_.called = false;
  }
  template <class Over>
  void sleep_until(Over is_over) {
    std::unique_lock guard(mine_.lock);
    if (is_over()) return;
    mine_.asleep = true;
    if (run_.falls_asleep()) {
      guard.unlock();
      run_.fail_of_deadlock();
      guard.lock();
    }
    mine_.awake.wait(guard, [&] { return !mine_.asleep || run_.stopping(); });
    mine_.asleep = false;
  }

  void lock() override { mine_.lock.lock(); }
  void unlock() override { mine_.lock.unlock(); }

  peer_threads& run_;
  std::uint32_t rank_;
  peer_mailbox& mine_;
  time_point idle_until_;
  busy_poll polls_;
};

struct peer_threads::peer_thread final : peer_participant {
  peer_thread(peer_threads& run, std::uint32_t rank) : peer_participant(run), to_others(run, rank) {
    attach(to_others, rank, run.seed_);
  }
  own_endpoint to_others;
};

namespace {
in_process const& checked(in_process const& options) {
  options.check();
  return options;
}
}  // namespace

peer_threads::peer_threads(in_process const& options, peer_setup setup)
    : peer_run(std::move(setup)),
      boxes_(count()),
      seed_(checked(options).seed),
      poll_for_(options.busy_poll),
      slowed_(options.slowness.begin(), options.slowness.end()) {
  if (slowed_.size() > count())
    throw option_error("in_process: slowness has " + std::to_string(slowed_.size()) +
                       " entries, but there are " + std::to_string(count()) + " peers");
  slowed_.resize(count());
}

peer_report peer_threads::run(body_type body) {
  life::begin();
  std::vector<std::thread> threads;
  try {
    begin(std::move(body));
    for (auto& p : participants_)
      start_thread_of([&] { return "peer " + std::to_string(threads.size()); },
                      [&] { threads.emplace_back([this, &p] { live(*p); }); });
  } catch (...) {  // no thread to be had: those that run would wait for it for ever
    fail(std::current_exception());
  }
  for (auto& t : threads) t.join();
  life::end();
  return report();
}

void peer_threads::begin(body_type body) {
  body_ = std::move(body);
  began_ = std::chrono::steady_clock::now();
  participants_.clear();
  for (std::uint32_t i = 0; i < count(); ++i) {
    {
      std::lock_guard const guard(boxes_[i].lock);  // somebody may observe
      node(i).reset();
      boxes_[i].bytes_answered = 0;
    }
    participants_.push_back(std::make_unique<peer_thread>(*this, i));
    enter();
  }
}

void peer_threads::wake_all() noexcept {
  for (peer_mailbox& m : boxes_) {
    { std::lock_guard const guard(m.lock); }
    m.awake.notify_all();
  }
}

std::string peer_threads::who_waits() const {
  std::string text;
  for (std::uint32_t i = 0; i < count(); ++i) {
    std::lock_guard const guard(boxes_[i].lock);
    if (boxes_[i].asleep) text += "; " + describe_wait(i);
  }
  return text;
}

void peer_threads::look_at(std::uint32_t rank, std::function<void(peer_node const&)> const& f) const {
  std::lock_guard const guard(boxes_[rank].lock);
  f(node(rank));
}

/// Of a run that is being stopped nobody is told: neighbors could take it for a loss before they notice.
void peer_threads::left(peer_participant& p) {
  if (stopping()) return;
  std::uint32_t const rank = p.handle().rank();
  outbox out;
  {
    std::lock_guard const guard(boxes_[rank].lock);
    node(rank).leave(out);
  }
  for (auto& [to, m] : out) send(worker_id{rank}, to, std::move(m));
}

/// In the sender's thread; so are the answers.
void peer_threads::send(worker_id from, worker_id to, peer_message&& m) {
  participants_[from.index()]->handle().count_sent(node(from.value()).bytes(m));
  outbox answers;
  deliver(from, to, std::move(m), answers);
  for (auto& [back, answer] : answers) {
    outbox none;
    deliver(to, back, std::move(answer), none);
  }
}

void peer_threads::deliver(worker_id from, worker_id to, peer_message&& m, outbox& answers) {
  peer_mailbox& at = boxes_[to.index()];
  peer_node& receiver = node(to.value());
  bool wake = false;
  {
    std::lock_guard const guard(at.lock);
    if (!receiver.deliver(from, std::move(m), answers))
      throw error(errc::refused, "peer " + std::to_string(to.value()) + ": a message of peer " +
                                     std::to_string(from.value()) + " breaks the protocol");
    for (auto const& [back, answer] : answers) at.bytes_answered += receiver.bytes(answer);
    wake = at.waiting && receiver.can_go_on();
    if (wake) at.called.store(true, std::memory_order_release);
    if (wake && std::exchange(at.asleep, false)) is_woken();
  }
  if (wake) at.awake.notify_one();
}

peer_report peer_threads::report() const {
  peer_report r;
  r.elapsed = ended().since_start();
  for (auto const& p : participants_) {
    r.peers.push_back(p->handle().metrics());
    r.peers.back().bytes_sent += boxes_[p->handle().rank()].bytes_answered;
  }
  return r;
}

}  // namespace detail

std::unique_ptr<peer_runtime> in_process::open_peers(peer_setup setup) const {
  setup.check_workers(workers);
  return std::make_unique<detail::peer_threads>(*this, std::move(setup));
}

}  // namespace rubato
