// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <exception>
#include <optional>
#include <utility>
#include <variant>

#include "rubato/core/error.hpp"
#include "rubato/core/rare.hpp"
#include "rubato/core/run_stopped.hpp"
#include "rubato/net/log.hpp"
#include "rubato/transport/processes/peer_control.hpp"
#include "rubato/transport/processes/peer_process.hpp"

namespace rubato {

namespace detail {

/// The end of a peer that is the only one of its process.
class peer_process::own_endpoint final : public peer_endpoint {
 public:
  own_endpoint(peer_process& run, stage_id stage) : run_(run), stage_(stage) {}

  void post(worker_id to, peer_message&& m) override {
    checkpoint();
    run_.participant_->handle().count_sent(run_.own().bytes(m));
    run_.links_->post(to.value(), stage_, std::move(m), [this] { return run_.stopping(); });
    checkpoint();
  }
  void flush() override {
    run_.wait([this] { return run_.links_->is_flushed() || run_.stopping(); });
    checkpoint();
  }
  void wait() override {
    wait_for_others([this] { return run_.stopping() || can_go_on(); });
    checkpoint();
  }
  void begin_exchange() override { staying_.emplace(run_.links_->turns()); }
  void end_exchange() noexcept override { staying_.reset(); }
  [[nodiscard]] bool is_near(worker_id to) const noexcept override { return run_.links_->is_near(to.value()); }
  [[nodiscard]] bool can_sum() const noexcept override { return run_.collective_ != nullptr; }
  [[nodiscard]] std::span<std::byte const> sum(std::span<std::byte const> mine) override {
    checkpoint();
    if (!run_.adds_up_ || can_go_on()) return {};  // without a sum only after a loss
    run_.participant_->handle().count_sent(mine.size());
    is_summed_ = false;
    {
      std::lock_guard const in_turn(run_.links_->turns());
      run_.collective_->sum(mine, [this] { is_summed_.store(true, std::memory_order_release); });
    }
    wait_for_others([this] { return is_summed_.load(std::memory_order_acquire) || run_.stopping() || can_go_on(); });
    checkpoint();
    return is_summed_ ? what_came() : std::span<std::byte const>();
  }
  [[nodiscard]] time_point now() const override { return run_.now(); }
  /// Computing has taken its own time already.
  void charge(double) override { checkpoint(); }
  void checkpoint() override {
    if (run_.stopping()) throw run_stopped{};
  }

 private:
  void lock() override { run_.node_lock_.lock(); }
  void unlock() override { run_.node_lock_.unlock(); }

  /// Which is logged where it takes long.
  template <class Over>
  void wait_for_others(Over is_over) {
    if (is_over()) return;
    struct noted {
      explicit noted(peer_process& run) : all(run) { all.waits_since_ = all.links_->now(); }
      ~noted() { all.waits_since_ = waits_not; }
      peer_process& all;
    } const as_waiting(run_);
    run_.wait(is_over);
  }
  [[nodiscard]] bool can_go_on() const {
    std::lock_guard const guard(run_.node_lock_);
    return run_.own().can_go_on();
  }
  /// Those who are being stopped tell nobody: see `left`.
  [[nodiscard]] std::span<std::byte const> what_came() {
    net::collective::outcome sum;
    {
      std::lock_guard const in_turn(run_.links_->turns());
      sum = run_.collective_->result();
    }
    if (!sum.total.empty()) return sum.total;
    for (std::uint32_t const rank : sum.left) {
      std::lock_guard const guard(run_.node_lock_);
      run_.own().lose(worker_id{rank});
    }
    run_.wait([this] { return run_.stopping() || can_go_on(); });
    checkpoint();
    return {};
  }

  peer_process& run_;
  stage_id stage_;
  std::atomic<bool> is_summed_ = false;
  std::optional<network_turn::staying> staying_;
};

struct peer_process::own_peer final : peer_participant {
  own_peer(peer_process& run, stage_id stage) : peer_participant(run), all(run), to_others(run, stage) {
    attach(to_others, run.rank(), run.seed_);
  }
  void live() override {
    try {
      peer_participant::live();
    } catch (lost_error const& e) {  // the node knows whom it misses, and not why
      throw lost_error(e.what() + all.why_lost());
    }
  }

  peer_process& all;
  own_endpoint to_others;
};

namespace {
/// What all processes must agree on. Of a node, since protocols are known by what they do.
std::string text_of_agreement(peer_setup const& setup, peer_node const& any, bool adds_up) {
  return setup.agreement() + "; protocol: " + any.agreement() + (adds_up ? "; sums: by collectives" : "");
}
}  // namespace

peer_process::peer_process(tcp const& options, peer_setup setup, collective_maker const& make_collective)
    : peer_run(std::move(setup), made_later{}),
      seed_(options.seed),
      shape_{setup_.element, setup_.size},
      long_wait_(options.place.long_wait) {
  std::uint32_t const likely = options.place.rank.value_or(0);
  make(likely);
  auto network = options.make_network();
  std::unique_ptr<net::collective> sums;  // also where this process is not let in: others make theirs
  if (make_collective && node(likely).sums()) sums = make_collective(*network, shape_);
  peer_links::user& self = *this;
  links_ = std::make_unique<peer_links>(self, std::move(network), options.place, count(), shape_,
                                        text_of_agreement(setup_, node(likely), sums != nullptr), options.background);
  collective_ = std::move(sums);
  if (links_->number() != likely) make(links_->number());
  setup_.make_node = {};  // it refers to what may be gone soon
}
peer_process::~peer_process() {
  // A run that failed has told the others itself.
  if (ran_well_ && std::uncaught_exceptions() > exceptions_)
    links_->leave_by("it was left by an exception after a run");
  std::lock_guard const mine(links_->turns());
  watch_.reset();
  collective_.reset();
}

// ---- a run

peer_report peer_process::run(body_type body) {
  life::begin();
  ran_well_ = false;
  bool is_awaited = false;
  try {
    begin(std::move(body));
    is_awaited = true;
    wait([this] { return begun_.load(std::memory_order_acquire); });
    if (begun_) take_part();
  } catch (...) {
    fail(std::current_exception());
  }
  if (is_awaited) {
    leave_collective();
    see_it_through();
  }
  life::end();
  if (!over_) links_->why_broken().raise();
  peer_report r = report();
  ran_well_ = true;
  return r;
}

/// Whatever becomes of it, the others hear that it has ended.
void peer_process::take_part() {
  try {
    participant_ = std::make_unique<own_peer>(*this, stage_);
    enter();
  } catch (...) {
    fail(std::current_exception());
    return links_->tell(wire::peer_ended{stage_});
  }
  life::live(*participant_);
}

void peer_process::begin(body_type body) {
  body_ = std::move(body);
  participant_.reset();
  bytes_answered_ = 0;
  std::lock_guard const mine(links_->turns());
  begun_ = over_ = is_to_settle_ = false;
  std::lock_guard const guard(lock_);
  stopped_.reset();
  consensus_.reset();
  {
    std::lock_guard const looked_at(node_lock_);
    own().reset();
    for (auto const& entry : lost_) own().lose(worker_id{entry.first});
  }
  expecting_ = true;
  links_->tell_in_turn(wire::ready{});
}

/// What it has given is added up all the same, and nobody waits for it.
void peer_process::leave_collective() {
  std::lock_guard const mine(links_->turns());
  adds_up_ = false;
  if (collective_)
    collective_->leave(stopping() ? net::collective::leaving::stopped : net::collective::leaving::ended);
}

/// Or never will be.
bool peer_process::is_summed_up() const {
  if (!collective_ || collective_->is_at_rest()) return true;
  std::lock_guard const guard(lock_);
  return !lost_.empty();
}

/// Others may still ask, and need answers, when this peer's body is over.
void peer_process::see_it_through() {
  auto const is_settled = [this] { 
    return is_to_settle_.load(std::memory_order_acquire) && links_->all_arrived() && is_summed_up();
  };
  wait([&] { return over_ || is_settled(); });
  if (!over_ && !links_->is_broken()) {
    peer_metrics m = participant_ ? participant_->handle().metrics() : peer_metrics{};
    m.bytes_sent += bytes_answered_;
    links_->tell(wire::peer_settled{stage_, m});
  }
  wait([this] { return over_.load(std::memory_order_acquire); });
}

/// Of a run that is being stopped nobody is told: neighbors could take it for a loss before they notice.
void peer_process::left(peer_participant&) {
  try {
    if (!stopping()) say_goodbye();
  } catch (...) {
    fail(std::current_exception());  // first: a run is not failed by who has ended
  }
  links_->tell(wire::peer_ended{stage_});
}

void peer_process::say_goodbye() {
  outbox out;
  {
    std::lock_guard const guard(node_lock_);
    own().leave(out);
  }
  for (auto& [to, m] : out) {
    participant_->handle().count_sent(own().bytes(m));
    links_->post(to.value(), stage_, std::move(m), [this] { return stopping(); });
  }
  wait([this] { return stopping() || links_->all_arrived(); });
}

peer_report peer_process::report() {
  std::lock_guard const guard(lock_);
  if (stopped_) raise(*stopped_);
  peer_report r;
  r.elapsed = measured_.elapsed;
  r.peers = measured_.peers;
  r.peers.resize(count());
  r.crashes = measured_.crashes;
  return r;
}

// ---- its end before time

void peer_process::stop() noexcept {
  life::stop();
  try {
    end_for_all(false, errc::bad_option, {});
  } catch (...) {  // no memory for it: the others go on
  }
}

void peer_process::tell_failure(std::exception_ptr const& why) noexcept {
  try {
    auto const what = breakdown::by(why);
    end_for_all(true, what.code(), "peer " + std::to_string(rank()) + ": " + what.sentence());
  } catch (...) {  // others will miss this process
  }
}

/// Before the run has begun here its number is not known: then it is said when it has.
void peer_process::end_for_all(bool failed, errc code, std::string const& sentence) {
  if (!begun_) return;
  stage_id stage{};
  {
    std::lock_guard const guard(lock_);
    stage = stage_;
  }
  links_->tell(wire::end_run{stage, failed, code, sentence});
}

void peer_process::wake_all() noexcept {
  if (links_) links_->turns().wake();  // they may break while they are being made
}

bool peer_process::crashed(std::uint32_t rank) const noexcept {
  std::lock_guard const guard(lock_);
  return lost_.contains(rank);
}

std::string peer_process::why_lost() const {
  std::lock_guard const guard(lock_);
  std::string text;
  for (auto const& entry : lost_) text += "; " + entry.second;
  return text;
}

// ---- the parameters

void peer_process::look_at(std::uint32_t rank, std::function<void(peer_node const&)> const& f) const {
  if (!has(rank))
    throw usage_error(errc::stale_handle, "parameters: peer " + std::to_string(rank) + " is in another process; "
                                          "this one has those of peer " + std::to_string(this->rank()) +
                                          ", and after a run the average of all");
  std::lock_guard const guard(node_lock_);
  f(own());
}

std::optional<peer_consensus> peer_process::consensus() const {
  std::lock_guard const guard(lock_);
  return consensus_;
}

// ---- what others say; in the turn of whoever heard it

void peer_process::told(wire::control_message const& m) {
  std::visit([this](auto const& one) { this->on(one); }, m);
}

template <class Other>
void peer_process::on(Other const&) {
  throw wire::frame_error("the coordinator said something that is not for a peer");
}

void peer_process::on(wire::peers_begin const& m) {
  if (!expecting_ || begun_) throw wire::frame_error("the coordinator begins a run that nobody here is ready for");
  bool const had_memory = links_->memory() != nullptr;
  links_->meet(m.others);
  if (auto const memory = links_->memory(); memory && !had_memory) {
    std::lock_guard const guard(node_lock_);
    own().use(memory);
  }
  {
    std::lock_guard const guard(lock_);
    stage_ = m.stage;
  }
  began_ = links_->now();
  if (!m.absent.empty()) RUBATO_RARE("peers: a run begins without one that was lost");
  adds_up_ = collective_ && collective_->is_at_rest();
  if (adds_up_) collective_->begin();
  for (wire::absent_peer const& p : m.absent) links_->drop(p.rank, p.sentence);
  begun_ = true;
  if (!watch_) watch_wait();
  if (stopping()) links_->tell_in_turn(wire::end_run{m.stage, false, errc::bad_option, {}});
}

void peer_process::watch_wait() {
  auto const since = [this]() -> std::optional<wait_watch::time> {
    auto const time = waits_since_.load();
    if (time == waits_not) return std::nullopt;
    return time;
  };
  auto const who = [this] {
    std::lock_guard const guard(node_lock_);
    return describe_wait(rank());
  };
  watch_.emplace(links_->network(), long_wait_, since, who);
}

void peer_process::on(wire::peer_lost const& m) { links_->drop(m.rank, m.sentence); }

void peer_process::on(wire::stop_run const& m) {
  {
    std::lock_guard const guard(lock_);
    if (m.stage != stage_ || over_) return;
    if (m.failed) {  // what has failed here comes first, see `life::end`
      RUBATO_RARE("peers: a run was ended by a failure elsewhere");
      stopped_ = m;
    }
  }
  life::stop();
}

void peer_process::on(wire::settle const& m) {
  if (m.stage == stage_) is_to_settle_.store(true, std::memory_order_release);
}

void peer_process::on(wire::send_share const& m) {
  if (m.stage != stage_) return;
  shared_update x;
  {
    std::lock_guard const guard(node_lock_);
    x = own().share();
  }
  links_->send_to_coordinator_in_turn(
      std::make_shared<parameters_frame const>(wire::kind::share, m.stage, std::move(x)));
}

std::span<std::byte> peer_process::room_for_average(stage_id stage, std::uint64_t bytes) {
  if (!begun_ || over_ || stage != stage_ || bytes != shape_.bytes())
    throw wire::frame_error("an average of " + std::to_string(bytes) + " bytes came that was not expected");
  arriving_average_ = update_buffer(update{.whole = true, .rows = {}, .values = {}});
  arriving_average_->values.resize_bytes(shape_.bytes());
  return arriving_average_->values.bytes();
}

void peer_process::average_arrived() {
  shared_update const average = std::move(arriving_average_);
  shared_update x;
  {
    std::lock_guard const guard(node_lock_);
    x = own().share();
  }
  double const distance =
      parameters_average::distance(shape_.element, x->values.bytes(), average->values.bytes());
  {
    std::lock_guard const guard(lock_);
    consensus_ = peer_consensus{average, distance};
  }
  links_->tell_in_turn(wire::peer_measured{stage_, distance});
}

void peer_process::on(wire::peers_over const& m) {
  if (m.stage != stage_ || !begun_) return;
  {
    std::lock_guard const guard(lock_);
    measured_ = m;
    if (consensus_) consensus_->spread = m.spread;
  }
  past_ = m.stage;
  expecting_ = false;
  over_.store(true, std::memory_order_release);
}

bool peer_process::wants(stage_id stage) const {
  if (stage <= past_) return false;
  if (!begun_) RUBATO_RARE("peers: a message came before the run had begun here");
  if (!expecting_ || (begun_ && stage != stage_))
    throw wire::frame_error("a message of run " + std::to_string(stage.value()) + ", which has not begun");
  return true;
}

/// An answer belongs to the run of its question, which may not have begun here.
void peer_process::arrived(std::uint32_t from, stage_id stage, peer_message&& m) {
  outbox answers;
  {
    std::lock_guard const guard(node_lock_);
    if (!own().deliver(worker_id{from}, std::move(m), answers))
      throw wire::frame_error("peer " + std::to_string(rank()) + ": a message of peer " + std::to_string(from) +
                              " breaks the protocol");
  }
  for (auto& [to, answer] : answers) {
    bytes_answered_ += own().bytes(answer);
    links_->answer(to.value(), stage, std::move(answer));
  }
}

void peer_process::neighbor_lost(std::uint32_t rank, std::string const& sentence) {
  {
    std::lock_guard const guard(lock_);
    lost_.emplace(rank, sentence);
  }
  std::lock_guard const guard(node_lock_);
  own().lose(worker_id{rank});
}

/// `links_` may not be there yet; it wakes those who wait itself.
void peer_process::broken(std::string const&) { note_stop(); }

// ---- the coordinator

peer_coordinator::peer_coordinator(tcp const& options, peer_setup setup, bool collective) {
  auto const any = setup.make_node(0);
  coordinator_ = std::make_unique<coordinator_process>(
      options.make_network(), options.place,
      std::make_unique<peer_control>(peer_control::options{.peers = setup.count,
                                                           .shape = {setup.element, setup.size},
                                                           .agreed = text_of_agreement(
                                                               setup, *any, collective && any->sums()),
                                                           .silence = options.place.silence}));
}

peer_report peer_coordinator::run(body_type) {
  coordinator_->run();
  return {};
}

void peer_coordinator::look_at(std::uint32_t, std::function<void(peer_node const&)> const&) const {
  throw usage_error(errc::stale_handle,
                    "only processes of peers can read parameters: this one coordinates them; ask "
                    "group.runtime().has_peers() first");
}

void peer_coordinator::cut(std::uint32_t) {
  throw usage_error(errc::stale_handle, "cut: only processes of peers are connected to peers");
}

std::unique_ptr<tcp_peer_runtime> open_peer_process(tcp const& options, peer_setup setup,
                                                    collective_maker const& make_collective) {
  net::deployment const& place = options.place;
  if (place.servers != 0)
    throw option_error("peers have no servers, but the number of servers is " + std::to_string(place.servers) +
                       ": expected 0 (RUBATO_SERVERS=0, rubato-launch -s 0)");
  if (options.threads != 1)
    throw option_error("peers over processes: threads is " + std::to_string(options.threads) +
                       ", expected 1: each process has one peer");
  if (place.workers != setup.count)
    throw option_error("the graph has " + std::to_string(setup.count) + " nodes, but the number of processes is " +
                       std::to_string(place.workers) + ": expected as many, besides the coordinator");
  constexpr std::uint32_t peers_max = 2048;  // the coordinator tells each where all others are: 300 MB, and seconds
  if (setup.count > peers_max)
    throw option_error("peers over processes: the graph has " + std::to_string(setup.count) +
                       " nodes, expected at most " + std::to_string(peers_max));
  if (place.logs) net::set_log_format(*place.logs);
  if (place.as == net::role::worker)
    return std::make_unique<peer_process>(options, std::move(setup), make_collective);
  return std::make_unique<peer_coordinator>(options, std::move(setup), make_collective != nullptr);
}

}  // namespace detail

std::unique_ptr<tcp_peer_runtime> tcp::open_peers(peer_setup setup) const {
  check();
  return detail::open_peer_process(*this, std::move(setup));
}

}  // namespace rubato
