// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/link.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "rubato/core/printable.hpp"
#include "rubato/core/rare.hpp"
#include "rubato/net/log.hpp"
#include "rubato/wire/archive.hpp"

namespace rubato::net {

namespace {

enum own_kind : std::uint8_t {
  hello_kind = 1,
  welcome_kind = 2,
  refused_kind = 3,
  ack_kind = 4,
  goodbye_kind = 5,
  cut_kind = 6
};

constexpr std::size_t small_body = 8 * 1024;
/// A line that takes longer, there and back, has to have much under way.
constexpr std::chrono::microseconds line_long{200};
/// So does one whose other end takes as long to answer a hello.
constexpr std::chrono::milliseconds welcome_long{5};
constexpr std::chrono::milliseconds first_delay{5};
constexpr std::chrono::milliseconds longest_delay{250};
constexpr std::chrono::milliseconds last_attempt{100};

std::vector<std::byte> encode(hello const& h) {
  wire::output_archive out;
  out << h.as << h.number << h.incarnation << h.session << h.received << h.credential;
  return out.take();
}

hello decode_hello(std::span<std::byte const> meta) {
  wire::input_archive in(meta);
  hello h;
  in >> h.as >> h.number >> h.incarnation >> h.session >> h.received >> h.credential;
  in.expect_end();
  if (h.as > role::coordinator) throw wire::frame_error("a hello of an unknown role");
  return h;
}

wire::frame_header own(own_kind kind, std::uint64_t sequence = 0) {
  wire::frame_header h;
  h.kind = kind;
  h.sequence = sequence;
  return h;
}

std::string seconds_text(std::chrono::milliseconds t) {
  std::string text = std::to_string(static_cast<double>(t.count()) / 1000);
  return text.substr(0, text.find('.') + 2) + " s";
}

/// Sends a kept frame's body from where it lies.
class kept_body final : public body_source {
 public:
  explicit kept_body(std::shared_ptr<reliable_frame const> frame) : frame_(std::move(frame)) {
    frame_->gather(pieces_);
  }
  [[nodiscard]] std::span<std::byte const> next() override {
    while (next_ < pieces_.size())
      if (auto const piece = pieces_[next_++]; !piece.empty()) return piece;
    return {};
  }
  [[nodiscard]] std::span<std::byte const> next_beside() override { return next(); }

 private:
  std::shared_ptr<reliable_frame const> frame_;
  std::vector<std::span<std::byte const>> pieces_;
  std::size_t next_ = 0;
};

class small_frame final : public reliable_frame {
 public:
  small_frame(std::uint8_t kind, std::span<std::byte const> body)
      : kind_(kind), body_(body.begin(), body.end()) {}
  [[nodiscard]] wire::frame_header header() const override {
    wire::frame_header h;
    h.kind = kind_;
    return h;
  }
  [[nodiscard]] std::span<std::byte const> meta() const override { return {}; }
  void gather(std::vector<std::span<std::byte const>>& body) const override {
    body.emplace_back(body_);
  }

 private:
  std::uint8_t kind_;
  std::vector<std::byte> body_;
};

}  // namespace

void link_user::warn(link&, std::string const& sentence) { log(log_level::warning, sentence); }

link::link(network& where, link_user& user, options const& limits, std::string who)
    : network_(where), user_(user), limits_(limits), who_(std::move(who)) {}

link::~link() { close(); }

void link::dial(address const& to, security const& keys, hello const& self,
                std::chrono::milliseconds patience) {
  dials_ = true;
  to_ = to;
  keys_ = keys;
  self_ = self;
  deadline_ = network_.now() + patience;
  try_connect();
}

void link::try_connect() {
  connection_options limits = limits_;
  limits.handshake = handshake_time();
  attempt_ = network_.dial(to_, keys_, limits,
                     [this](std::unique_ptr<connection> fresh, std::string const& reason,
                            bool refused) { connected(std::move(fresh), reason, refused); });
}

/// Who is gone may still seem to answer: a system accepts for a process that has been stopped. So
/// no handshake may take longer than there is patience, or than a break may last. The last of those
/// before the first connection has a moment, to find out what is wrong.
std::chrono::milliseconds link::handshake_time() const {
  auto const least = std::min(limits_.handshake, begun_ ? std::chrono::milliseconds{0} : last_attempt);
  auto const left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - network_.now());
  return std::clamp(left, least, limits_.handshake);
}

void link::connected(std::unique_ptr<connection> fresh, std::string const& reason, bool refused) {
  refused_ = refused;
  if (refused) return give_up(reason, false);
  if (!fresh) return retry(reason);
  connection_ = std::move(fresh);
  connection_->attach(*this);
  self_.received = received_;
  connection_->send(own(hello_kind), encode(self_));
  connection_->flush();
  hello_at_ = network_.now();
  timer_ = network_.at(hello_at_ + handshake_time(), [this] {
    RUBATO_RARE("a welcome did not come in time");
    connection_->close();
    closed("said no welcome in time");
  });
}

void link::retry(std::string const& reason) {
  if (over_) return;
  auto const now = network_.now();
  if (now >= deadline_)
    return give_up(begun_ ? reason : "could not be reached: " + reason, false);
  last_reason_ = reason;
  delay_ = std::clamp(delay_ * 2, first_delay, longest_delay);
  timer_ = network_.at(std::min(now + delay_, deadline_), [this] {
    try {
      try_connect();
    } catch (std::exception const& e) {  // files of TLS that were fine before may be again
      retry(e.what());
    }
  });
}

void link::adopt(std::unique_ptr<connection> fresh, hello const& said) {
  if (said.received > sent_) {  // not the other end: what there is stays as it is
    // A new link knows of nothing that is to go on: whom the other end means was here before, as who is started again.
    std::string const reason =
        (begun_ ? "" : "this process is not the one that it goes on with: ") + beyond_sent(said.received);
    warn(who_ + ": " + reason);
    net::refuse(*fresh, reason);
    if (!begun_) give_up(reason, false);
    return;
  }
  if (connection_) {  // the other end knows better that it is broken
    RUBATO_RARE("a process connected anew before the break was noticed");
    connection_->close();
    count_break();
    interrupted("it connected anew");
    if (at_break_.fruitless >= limits_.breaks_max) {
      connection_.reset();
      std::string const reason = stuck_text("it connected anew");
      net::refuse(*fresh, reason);
      return give_up(reason, false);
    }
  }
  connection_ = std::move(fresh);
  connection_->attach(*this);
  timer_.reset();
  connection_->send(own(welcome_kind, received_), {});
  acknowledged_ = received_;
  acknowledged(said.received);
  resume();
}

void link::welcomed(std::uint64_t received) {
  timer_.reset();
  slow_welcome_ = network_.now() - hello_at_ >= welcome_long;
  acknowledged_ = received_;
  acknowledged(received);
  resume();
}

void link::resume() {
  if (begun_) RUBATO_RARE("a link went on after a break");
  if (begun_ && !kept_.empty()) RUBATO_RARE("frames were sent again that had not been acknowledged");
  ready_ = begun_ = true;
  cut_ = false;
  garbled_ = false;
  arriving_.reset();
  up_since_ = network_.now();
  std::uint64_t sequence = sent_ - kept_.size();
  for (kept const& k : kept_) transmit(k.frame, ++sequence);
  user_.resumed(*this);
  flush();
}

bool link::is_near() {
  if (near_ || !is_up()) return near_;
  auto const there_and_back = connection_->round_trip();
  bool const tunnels = slow_welcome_ && there_and_back != std::chrono::microseconds(0);  // not a Unix-domain socket
  return near_ = there_and_back && *there_and_back < line_long && !tunnels;
}

std::string link::beyond_sent(std::uint64_t received) const {
  return "an acknowledgement of frame " + std::to_string(received) + ", but only " +
         std::to_string(sent_) + " have been sent";
}

void link::acknowledged(std::uint64_t received) {
  if (received > sent_) throw wire::frame_error(beyond_sent(received));
  while (!kept_.empty() && sent_ - kept_.size() < received) {
    kept_bytes_ -= kept_.front().bytes;
    kept_.pop_front();
  }
}

// ---- sending

void link::send(std::shared_ptr<reliable_frame const> frame) {
  if (over_) return;
  pieces_.clear();
  frame->gather(pieces_);
  std::size_t bytes = frame->lent();
  for (auto const piece : pieces_) bytes += piece.size();
  kept_.push_back({frame, bytes});
  kept_bytes_ += bytes;
  ++sent_;
  if (is_up()) transmit(frame, sent_);
}

void link::send_reliable(std::uint8_t kind, std::span<std::byte const> body) {
  send(std::make_shared<small_frame const>(static_cast<std::uint8_t>(kind | reliable_bit), body));
}

void link::transmit(std::shared_ptr<reliable_frame const> const& frame, std::uint64_t sequence) {
  wire::frame_header header = frame->header();
  header.sequence = sequence;
  pieces_.clear();
  frame->gather(pieces_);
  std::uint64_t length = 0;
  for (auto const piece : pieces_) length += piece.size();
  if (length > small_body) {
    connection_->send(header, frame->meta(), length, std::make_unique<kept_body>(frame));
  } else if (pieces_.size() == 1) {
    connection_->send(header, frame->meta(), pieces_.front());
  } else {
    scratch_.clear();
    for (auto const piece : pieces_) scratch_.insert(scratch_.end(), piece.begin(), piece.end());
    connection_->send(header, frame->meta(), scratch_);
  }
}

void link::send(wire::frame_header const& header, std::span<std::byte const> meta,
                std::span<std::byte const> body) {
  if (is_up()) connection_->send(header, meta, body);
}

void link::send(wire::frame_header const& header, std::span<std::byte const> meta,
                std::uint64_t length, std::unique_ptr<body_source> body) {
  if (is_up()) connection_->send(header, meta, length, std::move(body));
}

void link::flush() {
  if (connection_) connection_->flush();
}

void link::close() noexcept {
  try {
    if (connection_) connection_->send(own(goodbye_kind), {});
  } catch (...) {  // there is no memory left: the other end sees that the connection ends
  }
  shut();
}

void link::refuse(std::string const& reason) noexcept {
  try {
    if (connection_) net::refuse(*connection_, reason);
  } catch (...) {  // as above
  }
  shut();  // without a goodbye, which would make it look well
}

void link::shut() noexcept {
  timer_.reset();
  attempt_.reset();
  over_ = true;
  if (!connection_) return;
  connection_->close();
  connection_.reset();
}

void link::cut() {
  if (!connection_) return;
  cut_ = ready_;
  if (ready_) connection_->send(own(cut_kind), {});
  connection_->close();
  closed("cut");
}

// ---- receiving

void link::begin(wire::frame_header const& header, std::span<std::byte const> meta,
                 std::vector<std::span<std::byte>>& body) {
  try {
    if (header.kind < first_user_kind) return begin_own(header, meta);
    if (!ready_) throw wire::frame_error("a frame of kind " + std::to_string(header.kind) +
                                         " came before the hello");
    if ((header.kind & reliable_bit) != 0) expect_next(header.sequence);
    else arriving_ = header;
    user_.begin(*this, header, meta, body);
    if ((header.kind & reliable_bit) != 0 && std::exchange(last_begun_, header.sequence) == header.sequence)
      RUBATO_RARE("a frame came again after a cut in its body");
  } catch (std::exception const& e) {
    fail(e.what());
    throw;
  }
}

/// The connection will close for what has been thrown; the other end is told why.
void link::fail(std::string const& reason) {
  fatal_ = reason;
  if (connection_) net::refuse(*connection_, reason);
}

void link::begin_own(wire::frame_header const& header, std::span<std::byte const> meta) {
  if (header.length != 0)
    throw wire::frame_error("a frame of kind " + std::to_string(header.kind) + " has a body");
  switch (header.kind) {
    case ack_kind:
      if (ready_) return acknowledged(header.sequence);
      break;
    case goodbye_kind: farewell_ = true; return;
    case cut_kind:
      if (!ready_) break;
      cut_ = true;
      return;
    case refused_kind:
      refused_ = true;
      fatal_ = printable({reinterpret_cast<char const*>(meta.data()), meta.size()});
      return;
    case welcome_kind:
      if (dials_ && !ready_) return;  // `end` goes on, where it may send
      break;
    default: break;
  }
  throw wire::frame_error("a frame of kind " + std::to_string(header.kind) +
                          " came when none was expected");
}

/// Nothing comes twice, not even after a break: each end says in its hello or welcome what has
/// arrived, reads nothing more from the connection before, and is sent what follows.
void link::expect_next(std::uint64_t sequence) const {
  if (sequence == received_ + 1) return;
  throw wire::frame_error("frame " + std::to_string(sequence) +
                          (sequence <= received_ ? " came again, expected " : " came, expected ") +
                          std::to_string(received_ + 1));
}

void link::more(wire::frame_header const& header, std::vector<std::span<std::byte>>& body) {
  try {
    user_.more(*this, header, body);
  } catch (std::exception const& e) {
    fail(e.what());
    throw;
  }
}

void link::end(wire::frame_header const& header) {
  try {
    if (header.kind == welcome_kind) return welcomed(header.sequence);
    if (header.kind < first_user_kind) return;
    if ((header.kind & reliable_bit) != 0) ++received_;
    arriving_.reset();
    ++arrived_;
    user_.end(*this, header);
  } catch (std::exception const& e) {
    fail(e.what());
    throw;
  }
}

/// One that still waits says this in place of what it said: a line that takes nothing for long would gather hundreds.
void link::drained() {
  user_.drained(*this);
  if (!is_up() || received_ == acknowledged_) return;
  acknowledged_ = received_;
  connection_->send_newest(own(ack_kind, received_));
}

/// A frame that is sent again fails again: whoever sends it hears why, once it is enough.
void link::garbled(std::string const& reason) {
  garbled_ = true;
  if (!ready_ || !is_fruitless() || at_break_.fruitless + 1 < limits_.breaks_max) return;
  ++at_break_.fruitless;
  fail(stuck_text(reason));
}

/// Whether this connection has been of no use. Of what is kept the first frame must get through, or the rest never
/// will; and where one came that was none, or not to its end, the next that does. A question that waits for its answer
/// shows neither, before that has begun to come.
bool link::is_fruitless() const noexcept {
  return ((garbled_ || arriving_) && !has_arrived()) || (!kept_.empty() && !is_taken());
}

void link::count_break() {
  if (!ready_) return;
  bool const fruitless = is_fruitless();
  bool const of_use = !fruitless && (is_taken() || has_arrived());
  bool const lasted = network_.now() - up_since_ >= 4 * longest_delay;
  if (cut_ || of_use || lasted) delay_ = std::chrono::milliseconds{0};
  if (cut_) return;  // who cuts does not want what is under way
  std::uint32_t const before = of_use ? 0 : at_break_.fruitless;
  at_break_ = {sent_ - kept_.size(), arrived_, fruitless ? before + 1 : before};
}

std::string link::stuck_text(std::string const& reason) const {
  std::string text =
      std::to_string(at_break_.fruitless) + " connections in a row broke before anything had got through";
  if (!kept_.empty()) {
    wire::frame_header const first = kept_.front().frame->header();
    text += ", frame " + std::to_string(sent_ - kept_.size() + 1) + " of kind " + std::to_string(first.kind) + " and " +
            std::to_string(kept_.front().bytes) + " bytes to begin with";
  } else if (arriving_) {
    text += ", of what comes a frame of kind " + std::to_string(arriving_->kind) + " and " +
            std::to_string(arriving_->length) + " bytes to begin with";
  }
  return text + "; the last one: " + reason;
}

void link::closed(std::string const& reason) {
  if (over_) return;
  connection_.reset();
  timer_.reset();
  if (!ready_) RUBATO_RARE("a connection broke between its handshake and the welcome");
  if (arriving_) RUBATO_RARE("a connection broke in an answer");
  if (farewell_) return give_up(who_ + " has left", true);
  if (fatal_) return give_up(*fatal_, false);
  count_break();
  if (ready_ && at_break_.fruitless >= limits_.breaks_max) return give_up(stuck_text(reason), false);
  // A cut is no sign that the other end may be gone, so also who waits for nobody waits for this
  // one.
  auto const grace = cut_ ? std::max(limits_.reconnect, limits_.handshake) : limits_.reconnect;
  if (ready_) {
    deadline_ = network_.now() + grace;
    warn(who_ + ": " + reason + "; it may come back within " + seconds_text(grace));
    interrupted(reason);
  }
  if (dials_) return retry(reason);
  timer_ = network_.at(deadline_, [this, grace] {
    give_up(last_reason_ + ", and it did not come back within " + seconds_text(grace), false);
  });
}

void link::interrupted(std::string const& reason) {
  ready_ = false;
  near_ = false;
  last_reason_ = reason;
  user_.broken(*this, reason);
}

void link::give_up(std::string const& reason, bool expected) {
  if (std::exchange(over_, true)) return;
  if (!kept_.empty()) RUBATO_RARE("a link was given up with frames that had not arrived");
  kept_.clear();
  kept_bytes_ = 0;
  user_.lost(*this, reason, expected);
}

// ---- the door

class doorkeeper::guest final : public frame_receiver {
 public:
  guest(doorkeeper& keeper, std::unique_ptr<connection> fresh)
      : keeper_(keeper), connection_(std::move(fresh)) {
    connection_->attach(*this);
    timer_ = keeper_.network_.at(keeper_.network_.now() + keeper_.limits_.handshake, [this] {
      keeper_.refusals_.tell(connection_->peer() + (said_ ? ": could not be let in yet" : ": said no hello in time"),
                             keeper_.network_.now());
      leave();
    });
  }

  void begin(wire::frame_header const& header, std::span<std::byte const> meta,
             std::vector<std::span<std::byte>>&) override {
    if (header.kind != hello_kind || header.length != 0 || said_)
      throw wire::frame_error("a frame of kind " + std::to_string(header.kind) +
                              " came, expected a hello");
    said_ = decode_hello(meta);
  }
  void end(wire::frame_header const&) override {
    if (auto const why = connection_->shown().objection(said_->as)) return turn_away(*why);
    if (keeper_.open_) enter();
  }
  void warn(std::string const& sentence) override { keeper_.refusals_.tell(sentence, keeper_.network_.now()); }
  void closed(std::string const&) override { leave(); }

  /// Once the door is open: those whose hello has been read.
  void enter() {
    if (!said_ || !connection_ || !connection_->is_open()) return;
    if (keeper_.is_early_ && keeper_.is_early_(*said_)) {
      RUBATO_RARE("a guest waits at the door for news of it");
      return;
    }
    std::unique_ptr<connection> visitor = std::move(connection_);
    hello const said = *said_;
    visitor_ welcome = keeper_.welcome_;
    leave();
    welcome(std::move(visitor), said);
  }

 private:
  using visitor_ = doorkeeper::visitor;

  void turn_away(std::string const& reason) {
    keeper_.refusals_.tell(connection_->peer() + ": refused: " + reason, keeper_.network_.now());
    refuse(*connection_, reason);
    connection_->close();
    leave();
  }
  /// Not at once: the connection may be in the middle of calling.
  void leave() {
    timer_ = keeper_.network_.at(keeper_.network_.now(), [this] {
      std::erase_if(keeper_.guests_, [this](auto const& g) { return g.get() == this; });
    });
  }

  doorkeeper& keeper_;
  std::unique_ptr<connection> connection_;
  std::optional<hello> said_;
  std::shared_ptr<void> timer_;
};

doorkeeper::doorkeeper(network& where, connection_options const& limits, visitor welcome,
                       std::size_t guests_max)
    : network_(where), limits_(limits), welcome_(std::move(welcome)), guests_max_(guests_max) {}
doorkeeper::~doorkeeper() = default;

void doorkeeper::receive(std::unique_ptr<connection> fresh) {
  // Once for all who come while it is full: they may try again many times a second.
  if (guests_.size() >= guests_max_) {
    if (!std::exchange(crowded_, true))
      log(log_level::warning, fresh->peer() + ": " + std::to_string(guests_max_) +
                                  " others wait at the door; for each that comes the one that has longest goes");
    guests_.erase(guests_.begin());
  } else {
    crowded_ = crowded_ && guests_.size() > guests_max_ / 2;
  }
  guests_.push_back(std::make_unique<guest>(*this, std::move(fresh)));
}

void doorkeeper::open(judge is_early) {
  open_ = true;
  is_early_ = std::move(is_early);
  for (auto const& g : guests_) g->enter();
}

void refuse(connection& guest, std::string const& reason) {
  wire::frame_header header = own(refused_kind);
  std::string const text = reason.substr(0, 1000);
  guest.send(header, std::as_bytes(std::span(text)));
  guest.flush();
}

}  // namespace rubato::net
