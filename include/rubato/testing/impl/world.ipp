// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "rubato/core/mix.hpp"
#include "rubato/net/log.hpp"
#include "rubato/testing/impl/world_wire.hpp"

namespace rubato::testing {

namespace world_parts {

namespace {

class strand_condition final : public condition {
 public:
  strand_condition(world_state& world, one_life& of) : world_(world), of_(of) {}

  void wait(std::unique_lock<std::mutex>& guard) override { wait_to(guard, time_point::max()); }
  void wait_until(std::unique_lock<std::mutex>& guard, clock::time_point deadline) override {
    wait_to(guard, world_.global(of_.at, deadline));
  }
  void wait_for(std::unique_lock<std::mutex>& guard, clock::duration time) override {
    wait_until(guard, world_.local(of_.at, world_.now()) + time);
  }
  void notify_one() noexcept override {
    if (waiting_.empty()) return;
    world_.wake_soon(*waiting_.front().first, waiting_.front().second);
    waiting_.erase(waiting_.begin());
  }
  void notify_all() noexcept override {
    for (auto const& [who, number] : std::exchange(waiting_, {})) world_.wake_soon(*who, number);
  }

 private:
  void wait_to(std::unique_lock<std::mutex>& guard, time_point t) {
    strand* const s = world_.current();
    if (s == nullptr) throw usage_error(errc::bad_option, "a simulated process waits outside of its threads");
    guard.unlock();
    std::uint64_t const number = world_.prepare_to_wait(*s);
    waiting_.emplace_back(s, number);
    if (t != time_point::max()) world_.wake_at(t, *s, number);
    world_.wait(*s);
    std::erase(waiting_, std::pair(s, number));
    guard.lock();
  }

  world_state& world_;
  one_life& of_;
  std::vector<std::pair<strand*, std::uint64_t>> waiting_;
};

class strand_handle final : public running_thread {
 public:
  strand_handle(world_state& world, strand& s) : world_(world), strand_(s) {}
  void join() override {
    while (!strand_.over) {
      strand* const me = world_.current();
      if (me == nullptr) throw usage_error(errc::bad_option, "a simulated thread is joined outside of its process");
      strand_.joining.emplace_back(me, world_.prepare_to_wait(*me));
      world_.wait(*me);
    }
  }

 private:
  world_state& world_;
  strand& strand_;
};

}  // namespace

std::unique_ptr<condition> strands::make_condition() { return std::make_unique<strand_condition>(world_, of_); }

std::unique_ptr<running_thread> strands::start(std::function<void()> body) {
  return std::make_unique<strand_handle>(world_, world_.spawn(of_, std::move(body)));
}

net::network_maker one_life::network() {
  return [this] { return make_network(world.shared_from_this(), *this); };
}

void one_life::work(duration time) {
  strand* const s = world.current();
  if (s == nullptr) throw usage_error(errc::bad_option, "a simulated process works outside of its threads");
  if (is_killed()) return;
  std::uint64_t const number = world.prepare_to_wait(*s);
  world.wake_at(world.global(at, world.local(at, world.now()) + time), *s, number);
  world.wait(*s);
}

}  // namespace world_parts

using namespace world_parts;

// ---- time

void world_state::step() {
  auto const f = queue.pop();
  ++events;
  mix(static_cast<std::uint64_t>(now().since_start().count()));
  f();
  if (after_event) after_event();
}

void world_state::mix(std::uint64_t word) noexcept {
  hash = rubato::detail::mix64(hash ^ word) + 0x9e3779b97f4a7c15u;
}

void world_state::mix(std::span<std::byte const> bytes) noexcept {
  for (std::uint64_t word = bytes.size(); !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), sizeof word))) {
    std::memcpy(&word, bytes.data(), std::min(bytes.size(), sizeof word));
    mix(word);
  }
}

namespace {
/// Long after the epoch, which some take for "never yet".
constexpr world_state::clock::time_point beginning{std::chrono::hours(1000)};
__extension__ using wide = __int128;
}  // namespace

world_state::clock::time_point world_state::local(slot const& s, time_point t) const noexcept {
  return beginning + s.ahead + duration(static_cast<duration::rep>(wide{t.since_start().count()} * s.speed / 4096));
}

time_point world_state::global(slot const& s, clock::time_point t) const noexcept {
  if (t == clock::time_point::max()) return time_point::max();
  wide const since = std::max<wide>((t - beginning - s.ahead).count(), 0);
  wide const g = (since * 4096 + s.speed - 1) / s.speed;
  return g > duration::max().count() ? time_point::max() : time_point(duration(static_cast<duration::rep>(g)));
}

// ---- strands

world_state::strand* world_state::current() const noexcept {
  auto const id = fibers.current();
  return id ? strands[*id].get() : nullptr;
}

world_state::strand& world_state::spawn(one_life& of, std::function<void()> body) {
  strands.push_back(std::make_unique<strand>(strand{.of = &of, .body = std::move(body)}));
  strand& s = *strands.back();
  s.fiber = fibers.spawn([this, &s] {
    // As of a thread, nothing may leave it.
    [&]() noexcept {
      try {
        s.body();
      } catch (sim::fiber_killed const&) {
      }
    }();
    s.body = nullptr;
    s.over = true;
    for (auto const& [who, number] : s.joining) wake_soon(*who, number);
  });
  s.waits = 1;
  wake_soon(s, 1);
  return s;
}

void world_state::wait(strand& s) {
  s.waiting = true;
  fibers.suspend();
}

void world_state::wake(strand& s, std::uint64_t number) {
  if (s.over || !s.waiting || s.waits != number) return;
  if (s.of->at.paused_until > now() && !s.of->end.killed) return wake_at(s.of->at.paused_until, s, number);
  s.waiting = false;
  fibers.resume(s.fiber);
}

// ---- processes

one_life* world_state::latest(process_number p) const noexcept {
  auto const& lives = slots[p]->lives;
  return lives.empty() ? nullptr : lives.back().get();
}

void world_state::start(process_number p) {
  slot& s = *slots[p];
  s.lives.push_back(std::make_unique<one_life>(*this, s));
  one_life& l = *s.lives.back();
  l.end.started = true;
  l.end.began = now();
  if (l.end.life != 0) tell(s.name, fmt::format("starts, for the {}. time", l.end.life + 1));
  (void)spawn(l, [this, &l] {
    try {
      l.at.main(l);
    } catch (std::exception const& e) {
      l.end.failure = e.what();
      if (auto const* known = dynamic_cast<error const*>(&e)) l.end.code = known->code();
    }
    l.end.ended = true;
    l.end.at = now();
    if (!l.end.killed) tell(l.at.name, l.end.failure.empty() ? "ends" : "ends: " + l.end.failure);
    --running;
  });
}

void world_state::kill(process_number p, death how) {
  one_life* const l = latest(p);
  if (l == nullptr || l->end.ended || l->end.killed) return;
  tell(l->at.name, how == death::closes ? "is killed" : "is killed, and its machine is gone");
  l->end.killed = true;
  std::erase_if(places, [&](auto const& entry) {
    auto const at = entry.second.lock();
    bool const is_gone = !at || is_of_the_dead(*at);
    if (is_gone && how == death::vanishes) deserted.insert(entry.first);
    return is_gone;
  });
  cut_off(*this, *l, how);
}

bool world_state::all_ended() const noexcept { return running == 0; }

bool world_state::all_ended_or_killed() const noexcept {
  std::size_t dead = 0;
  for (auto const& s : slots)
    dead += static_cast<std::size_t>(
        std::ranges::count_if(s->lives, [](auto const& l) { return l->end.killed && !l->end.ended; }));
  return running == dead;
}

// ---- paths

path_options const& world_state::path(process_number from, process_number to) const {
  auto const at = paths.find({from, to});
  return at == paths.end() ? usual_path : at->second;
}

time_point world_state::opens(process_number from, process_number to) const {
  auto const at = blocked.find({from, to});
  return at == blocked.end() ? time_point{} : at->second;
}

duration world_state::travel(path_options const& p) {
  return p.latency + stretch(p.jitter, p.jitter == duration::zero() ? 0.0 : random.uniform());
}

std::vector<std::shared_ptr<wire>> world_state::wires() {
  std::vector<std::shared_ptr<wire>> all;
  std::erase_if(wires_ever, [&](auto const& weak) {
    auto w = weak.lock();
    bool const over = !w || (w->ends[0].closed && w->ends[1].closed);
    if (!over) all.push_back(std::move(w));
    return over;
  });
  return all;
}

void world_state::log(std::string const& who, std::string const& line) {
  tell(who, line);
  if (on_log) on_log(who, line);
}

void world_state::tell(std::string const& who, std::string const& sentence) {
  constexpr std::size_t most = 200;
  lines.push_back(fmt::format("{:10.3f} ms  {}: {}", to_seconds(now().since_start()) * 1000, who, sentence));
  if (lines.size() > most) lines.pop_front();
}

// ---- the world

world::world(std::uint64_t seed, path_options const& usual) : state_(std::make_shared<world_state>(seed, usual)) {}

/// What has not ended still holds its networks, and so the world: that is left as it is, as its code may wait in
/// places that cannot be unwound.
world::~world() {
  state_->queue = {};
  state_->after_event = nullptr;
}

process_number world::add(std::string name, main_function main, duration starts) {
  auto s = std::make_unique<slot>();
  s->name = std::move(name);
  s->main = std::move(main);
  s->number = static_cast<process_number>(state_->slots.size());
  state_->slots.push_back(std::move(s));
  restart(state_->slots.back()->number, starts);
  return state_->slots.back()->number;
}

void world::restart(process_number p, duration after) {
  ++state_->running;
  state_->push(state_->now() + after, [w = state_.get(), p] { w->start(p); });
}

void world::set_clock(process_number p, double speed, duration ahead) {
  if (!(speed >= 1.0 / 64 && speed <= 64))
    throw option_error(fmt::format("world: the speed of a clock must be between 1/64 and 64, but is {}", speed));
  state_->slots.at(p)->speed = static_cast<std::int64_t>(speed * 4096);
  state_->slots.at(p)->ahead = ahead;
}

std::unique_ptr<net::network> world::outside() {
  auto s = std::make_unique<slot>();
  s->name = "outside";
  s->number = static_cast<process_number>(state_->slots.size());
  s->lives.push_back(std::make_unique<one_life>(*state_, *s));
  state_->slots.push_back(std::move(s));
  return make_network(state_, *state_->slots.back()->lives.back());
}

void world::set_path(process_number from, process_number to, path_options const& how) {
  state_->paths.insert_or_assign({from, to}, how);
}

bool world::is_alive(process_number p) const {
  one_life const* const l = state_->latest(p);
  return l != nullptr && !l->end.ended && !l->end.killed;
}

void world::kill(process_number p, death how) { state_->kill(p, how); }

void world::pause(process_number p, duration time) {
  slot& s = *state_->slots.at(p);
  s.paused_until = std::max(s.paused_until, now() + time);
  tell(fmt::format("{} stands still for {:g} ms", s.name, to_seconds(time) * 1000));
}

void world::block(process_number from, process_number to, duration time) {
  time_point& until = state_->blocked[{from, to}];
  until = std::max(until, now() + time);
  tell(fmt::format("nothing gets from {} to {} for {:g} ms", state_->slots.at(from)->name, state_->slots.at(to)->name,
                   to_seconds(time) * 1000));
}

std::size_t world::cut(process_number a, process_number b) { return world_parts::cut(*state_, a, b, true); }
std::size_t world::cut_unnoticed(process_number a, process_number b) { return world_parts::cut(*state_, a, b, false); }

void world::cut_after(process_number from, process_number to, std::uint64_t bytes) {
  for (auto const& w : state_->wires())
    for (std::size_t const i : {0U, 1U})
      if (w->process(i) == from && w->process(1 - i) == to) w->ways[i].cut_after = bytes;
}

void world::refuse(process_number p, duration time) {
  slot& s = *state_->slots.at(p);
  s.refuses_until = std::max(s.refuses_until, now() + time);
  tell(fmt::format("{} takes no connections for {:g} ms", s.name, to_seconds(time) * 1000));
}

void world::at(duration when, std::function<void()> f) { state_->push(time_point(when), std::move(f)); }

bool world::run(duration until) {
  struct log_in_here {
    explicit log_in_here(world_state& w) {
      net::set_log([&w](net::log_level, std::string_view line) {
        strand const* const s = w.current();
        if (s != nullptr && s->of->end.killed) return;
        w.log(s == nullptr ? std::string("the world") : s->of->at.name, std::string(line));
      });
    }
    log_in_here(log_in_here const&) = delete;
    log_in_here& operator=(log_in_here const&) = delete;
    ~log_in_here() { net::set_log({}); }
  } const here(*state_);
  time_point const end(until);
  while (!state_->all_ended() && !state_->queue.empty() && state_->queue.next_time() <= end) state_->step();
  return state_->all_ended_or_killed();
}

time_point world::now() const noexcept { return state_->now(); }
void world::on_event(std::function<void()> f) { state_->after_event = std::move(f); }
void world::on_log(std::function<void(std::string const&, std::string const&)> f) { state_->on_log = std::move(f); }
std::uint64_t world::events() const noexcept { return state_->events; }
std::uint64_t world::hash() const noexcept { return state_->hash; }
random_stream& world::random() noexcept { return state_->random; }

std::vector<process_end> world::ends() const {
  std::vector<process_end> all;
  for (auto const& s : state_->slots)
    for (auto const& l : s->lives)
      if (s->main) all.push_back(l->end);
  return all;
}

void world::tell(std::string const& sentence) { state_->tell("the world", sentence); }
std::vector<std::string> world::story() const { return {state_->lines.begin(), state_->lines.end()}; }

}  // namespace rubato::testing
