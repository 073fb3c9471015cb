// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <exception>
#include <tuple>
#include <utility>

#include "rubato/transport/threads/thread_process.hpp"

namespace rubato::detail {

thread_process::thread_process(blueprint const& plan, std::size_t protocol, server_group& servers, life& run,
                               std::function<time_point()> now)
    : servers_(servers), run_(run), now_(std::move(now)), answering_(servers.size()), cache_(plan, *this) {
  cache_.begin_stage(protocol);
}

/// It is counted before the server hears of it, which may release it at once, and before its worker may leave.
void thread_process::ask(server_fetch& f) {
  {
    std::lock_guard const guard(lock_);
    tickets_[f.read.from.worker].add(f);
  }
  try {
    ask_server(f);
  } catch (...) {
    ask_later_ones();
    throw;
  }
  ask_later_ones();
}

void thread_process::ask_in_turn(server_fetch& f) {
  std::lock_guard const guard(lock_);
  later_.push_back(&f);
  try {
    tickets_[f.read.from.worker].add(f);
  } catch (...) {
    later_.pop_back();
    throw;
  }
}

void thread_process::ask_later_ones() {
  while (true) {
    server_fetch* next = nullptr;
    {
      std::lock_guard const guard(lock_);
      if (later_.empty()) return;
      next = later_.front();
      later_.pop_front();
    }
    try {
      ask_server(*next);
    } catch (...) {
      next->failed(std::current_exception());
      wake();
    }
  }
}

void thread_process::ask_server(server_fetch& f) {
  worker_id const asker = f.read.from.worker;
  f.slot.arrived = f.slot.admitted = now_();
  std::vector<server_fetch*> ready;
  {
    std::unique_lock one(answering_[f.server.index()]);
    refusal refused = refusal::none;
    bool done = false;
    std::vector<worker_id> released;  // nobody, where reads are shared
    try {
      if (joins(f)) {
        one.unlock();
        std::unique_lock guard(lock_);
        ready = take_ready(tickets_[asker]);  // it does not wait for itself any more
        guard.unlock();
        return read(ready);
      }
      std::tie(refused, done) = servers_.server(f.server).admit(f.table, f.read, f.slot, released);
    } catch (...) {
      ready = forget(asker, f);  // the others may have waited for this one alone
      if (one.owns_lock()) one.unlock();
      read(ready);
      throw;
    }
    if (refused == refusal::none && !done) return;
    ready = forget(asker, f);
    f.done(refused);
  }
  read(ready);
  wake();
}

/// Whether it goes on with what waits at its server in the same name; else the server is asked. @pre the server's
/// answers are this thread's
bool thread_process::joins(server_fetch& f) {
  std::lock_guard const guard(lock_);
  tickets& t = tickets_[f.read.from.worker];
  bool const joined = std::ranges::any_of(t.at_server, [&](server_fetch const* other) {
    return other->server == f.server && other->read.goes_with(f.read);
  });
  (joined ? t.beside : t.at_server).push_back(&f);
  if (joined) std::erase(t.waiting, &f);
  return joined;
}

/// It was answered at once, so the others may be all that wait.
std::vector<server_fetch*> thread_process::forget(worker_id asker, server_fetch& f) {
  std::lock_guard const guard(lock_);
  tickets& t = tickets_[asker];
  std::erase(t.waiting, &f);
  std::erase(t.at_server, &f);
  return take_ready(t);
}

void thread_process::released(worker_id w) {
  std::vector<server_fetch*> ready;
  {
    std::lock_guard const guard(lock_);
    tickets& t = tickets_[w];
    ++t.released;
    ready = take_ready(t);
  }
  read(ready);
  ask_later_ones();
}

std::vector<server_fetch*> thread_process::take_ready(tickets& t) noexcept {
  if (!t.all_released()) return {};
  t.waiting.insert(t.waiting.end(), t.beside.begin(), t.beside.end());
  t.released = 0;
  t.at_server.clear();
  t.beside.clear();
  return std::exchange(t.waiting, {});
}

/// Whoever reads may be somebody else than who waits, and is not to hear if that fails.
void thread_process::read(std::vector<server_fetch*> const& ready) {
  if (ready.empty()) return;
  for (server_fetch* const f : ready) {
    std::lock_guard const one(answering_[f->server.index()]);
    try {
      f->slot.admitted = now_();
      servers_.server(f->server).read_released(f->table, f->read, f->slot);
    } catch (...) {
      f->failed(std::current_exception());
      continue;
    }
    f->done(refusal::none);
  }
  wake();
}

void thread_process::wait(inquiry const& asked) {
  sleep_until([&] { return asked.missing.load(std::memory_order_acquire) == 0; });
}

void thread_process::settle(worker_id w) {
  sleep_until([this, w] { return tickets_[w].waiting.empty() && tickets_[w].beside.empty(); });
}

void thread_process::sleep_until(std::function<bool()> is_over) {
  std::unique_lock guard(lock_);
  if (is_over() || run_.stopping()) return;
  sleeper self{std::move(is_over)};
  sleepers_.push_back(&self);
  if (run_.falls_asleep()) {
    guard.unlock();
    run_.fail_of_deadlock();
    guard.lock();
  }
  changed_.wait(guard, [&] { return self.woken || run_.stopping(); });
  std::erase(sleepers_, &self);
}

void thread_process::wake() {
  {
    std::lock_guard const guard(lock_);
    for (sleeper* const s : sleepers_) {
      if (s->woken || !s->is_over()) continue;
      s->woken = true;
      run_.is_woken();
    }
  }
  changed_.notify_all();
}

}  // namespace rubato::detail
