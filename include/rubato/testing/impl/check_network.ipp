// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rubato/testing/check_network.hpp"

namespace rubato::testing {

namespace detail {

/// Keeps the frames that arrive, each body in three buffers and, if it is long, the rest of it later.
class frame_keeper final : public net::frame_receiver {
 public:
  struct frame {
    wire::frame_header header;
    std::vector<std::byte> meta, body;
  };

  void begin(wire::frame_header const& header, std::span<std::byte const> meta,
             std::vector<std::span<std::byte>>& body) override {
    if (refuses) throw wire::frame_error("a frame that is not wanted");
    arriving_ = {header, {meta.begin(), meta.end()}, std::vector<std::byte>(header.length)};
    given_ = 0;
    more(header, body);
  }
  void more(wire::frame_header const&, std::vector<std::span<std::byte>>& body) override {
    auto const rest = std::span(arriving_.body).subspan(given_);
    auto const part = rest.first(std::min<std::size_t>(rest.size(), 1'000'000));
    given_ += part.size();
    for (std::size_t i = 0; i < 3; ++i)
      body.push_back(part.subspan(part.size() * i / 3, part.size() * (i + 1) / 3 - part.size() * i / 3));
  }
  void end(wire::frame_header const&) override {
    frames.push_back(std::move(arriving_));
    if (on_end) on_end();
  }
  void closed(std::string const& reason) override { reasons.push_back(reason); }

  std::vector<frame> frames;
  std::vector<std::string> reasons;
  std::function<void()> on_end;
  bool refuses = false;

 private:
  frame arriving_;
  std::size_t given_ = 0;
};

/// A body in pieces of a buffer that each piece uses anew.
class piecewise final : public net::body_source {
 public:
  explicit piecewise(std::vector<std::byte> all) : all_(std::move(all)) {}
  std::span<std::byte const> next() override {
    auto const rest = std::span(all_).subspan(at_);
    auto const part = rest.first(std::min<std::size_t>(rest.size(), 70'001));
    at_ += part.size();
    piece_.assign(part.begin(), part.end());
    return piece_;
  }

 private:
  std::vector<std::byte> all_, piece_;
  std::size_t at_ = 0;
};

inline std::vector<std::byte> bytes_of(std::size_t size, std::size_t salt) {
  std::vector<std::byte> all(size);
  for (std::size_t i = 0; i < size; ++i) all[i] = std::byte((i * 131 + i / 251 + salt) & 0xFF);
  return all;
}

class network_checker {
 public:
  network_checker(net::network_maker const& make, network_check const& how)
      : how_(how), here_(make()), there_(make()) {}

  sentences run() {
    attempt("the time", [&] { check_time(); });
    attempt("timers", [&] { check_timers(); });
    attempt("interrupt", [&] { check_interrupt(); });
    attempt("frames", [&] { check_frames(); });
    attempt("closing", [&] { check_closing(); });
    attempt("frames that are not wanted", [&] { check_refusing(); });
    attempt("owners that close while they are told", [&] { check_closing_inside(); });
    attempt("dialing", [&] { check_dialing(); });
    return found_.take();
  }

 private:
  using clock = net::network::clock;

  /// Two ends that are connected, and what they have heard.
  struct conversation {
    frame_keeper heard_here, heard_there;
    std::unique_ptr<net::listener> listener;
    std::shared_ptr<void> handle;
    std::unique_ptr<net::connection> here, there;
    std::string reason;
    bool told = false;
    bool dialing = false;  ///< `dial` has not returned yet
  };

  template <class F>
  void attempt(char const* what, F f) {
    try {
      f();
    } catch (std::exception const& e) {
      found_.expect(false, what, ": ", e.what());
    }
  }

  /// Lets both do what there is to do until `done()`; false when that takes too long.
  template <class Done>
  [[nodiscard]] bool until(Done done, std::chrono::milliseconds limit) {
    auto const end = clock::now() + limit;  // of this machine, should theirs stand still
    while (!done()) {
      if (clock::now() > end) return false;
      there_->poll();
      here_->run_one(here_->now() + std::chrono::milliseconds(1));
    }
    return true;
  }
  template <class Done>
  [[nodiscard]] bool until(Done done) {
    return until(done, how_.patience);
  }
  /// What should not happen has had time to.
  void linger() {
    (void)until([] { return false; }, std::chrono::milliseconds(50));
  }

  void check_time() {
    auto const first = here_->now();
    here_->run_one(first + std::chrono::milliseconds(3));
    auto const second = here_->now();
    found_.expect(second >= first + std::chrono::milliseconds(3),
                  "run_one returned before its deadline, with nothing to do");
    here_->run_one(first);  // which is past
    here_->poll();
    found_.expect(here_->now() >= second, "now() goes back");
  }

  void check_timers() {
    std::vector<int> rung;
    auto const now = here_->now();
    auto const later = here_->at(now + std::chrono::milliseconds(20), [&] { rung.push_back(2); });
    auto const sooner = here_->at(now + std::chrono::milliseconds(10), [&] { rung.push_back(1); });
    auto const at_once = here_->at(now - std::chrono::hours(1), [&] { rung.push_back(0); });
    auto dropped = here_->at(now + std::chrono::milliseconds(5), [&] { rung.push_back(-1); });
    dropped.reset();
    found_.expect(rung.empty(), "a timer rings inside at()");
    (void)until([&] { return rung.size() >= 3; });
    found_.expect(here_->now() >= now + std::chrono::milliseconds(20), "a timer rings too early");
    linger();
    found_.expect(rung == std::vector{0, 1, 2}, "timers did not ring once each, in the order of their times");
  }

  void check_interrupt() {
    std::thread other([&] { here_->interrupt(); });
    auto const start = clock::now();
    here_->run_one(here_->now() + 4 * how_.patience);
    found_.expect(clock::now() - start < 4 * how_.patience, "interrupt() did not make run_one return");
    other.join();
    linger();
  }

  /// Connects two ends; false when that does not work.
  [[nodiscard]] bool connect(conversation& c) {
    c.listener = there_->listen(how_.at, how_.keys, {}, [&](std::unique_ptr<net::connection> fresh) {
      c.there = std::move(fresh);
      c.there->attach(c.heard_there);
    });
    dial(c, c.listener->bound());
    bool const connected = until([&] { return c.here && c.there; });
    found_.expect(connected, "no connection: ", c.reason);
    return connected;
  }
  void dial(conversation& c, net::address const& to) {
    c.dialing = true;
    c.handle = here_->dial(to, how_.keys, {},
                           [&](std::unique_ptr<net::connection> made, std::string const& reason, bool) {
                             found_.expect(!c.dialing, "dial() calls back before it returns");
                             found_.expect(!c.told, "dial() calls back twice");
                             found_.expect(made || !reason.empty(), "dial() fails without a reason");
                             c.told = true;
                             c.reason = reason;
                             if (made) made->attach(c.heard_here);
                             c.here = std::move(made);
                           });
    c.dialing = false;
  }

  static wire::frame_header header_of(std::uint64_t sequence) {
    wire::frame_header h;
    h.kind = 1;
    h.table = 3;
    h.sender = 12;
    h.incarnation = 2;
    h.sequence = sequence;
    return h;
  }

  void check_frames() {
    conversation c;
    if (!connect(c)) return;
    std::vector<std::size_t> const sizes{0, 1, 500, 8'192, 8'193, 65'536, 262'145, how_.largest};
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      auto const meta = bytes_of(i, i);
      c.here->send(header_of(i), meta, bytes_of(sizes[i], i));
      if (sizes[i] != 0)
        c.there->send(header_of(i), meta, sizes[i], std::make_unique<piecewise>(bytes_of(sizes[i], i)));
      else c.there->send(header_of(i), meta);
    }
    c.here->flush();
    c.there->flush();
    bool const arrived = until([&] {
      return c.heard_here.frames.size() == sizes.size() && c.heard_there.frames.size() == sizes.size();
    });
    found_.expect(arrived, "of ", sizes.size(), " frames each way ", c.heard_there.frames.size(), " and ",
                  c.heard_here.frames.size(), " arrived");
    for (frame_keeper const* heard : {&c.heard_here, &c.heard_there})
      for (std::size_t i = 0; i < heard->frames.size(); ++i) check_frame(heard->frames[i], i, sizes[i]);
    found_.expect(until([&] { return c.here->unsent() == 0 && c.there->unsent() == 0; }),
                  "unsent() is not 0 although everything has arrived");
    check_newest(c);
  }

  /// Of what is sent so the last arrives, and all that does in order.
  void check_newest(conversation& c) {
    auto const& heard = c.heard_there.frames;
    std::size_t const before = heard.size();
    for (std::uint64_t i = 1; i <= 3; ++i) c.here->send_newest(header_of(i));
    c.here->flush();
    found_.expect(until([&] { return heard.size() > before && heard.back().header.sequence == 3; }),
                  "the last of three frames sent by send_newest() does not arrive");
    auto const arrived = std::span(heard).subspan(before);
    found_.expect(std::ranges::is_sorted(arrived, {}, [](auto const& f) { return f.header.sequence; }),
                  "frames sent by send_newest() arrive out of their order");
  }

  void check_frame(frame_keeper::frame const& f, std::size_t i, std::size_t size) {
    wire::frame_header const& h = f.header;
    wire::frame_header const sent = header_of(i);
    found_.expect(h.kind == sent.kind && h.table == sent.table && h.sender == sent.sender &&
                      h.incarnation == sent.incarnation && h.sequence == sent.sequence,
                  "frame ", i, " arrives with another header than it was sent with, or out of its order");
    found_.expect(h.length == size && f.body == bytes_of(size, i), "the body of frame ", i, ", ", size,
                  " bytes, arrives changed");
    found_.expect(f.meta == bytes_of(i, i), "the meta of frame ", i, " arrives changed");
  }

  void check_closing() {
    conversation c;
    if (!connect(c)) return;
    c.here->send(header_of(0), {}, bytes_of(100, 0));
    c.here->close();
    found_.expect(!c.here->is_open(), "a connection is open after close()");
    c.here->send(header_of(1), {}, bytes_of(100, 0));
    found_.expect(until([&] { return !c.heard_there.reasons.empty(); }),
                  "the other end is not told when a connection closes");
    linger();
    found_.expect(c.heard_there.frames.size() == 1, "of a frame sent before close() and one after it ",
                  c.heard_there.frames.size(), " arrived, expected 1");
    found_.expect(c.heard_there.reasons.size() <= 1, "closed() is called twice");
    found_.expect(!c.there->is_open(), "a connection is open after the other end has closed it");
    found_.expect(c.heard_here.reasons.empty(), "who closes a connection is told so");
  }

  void check_refusing() {
    conversation c;
    if (!connect(c)) return;
    c.heard_there.refuses = true;
    c.here->send(header_of(0), {}, bytes_of(10, 0));
    c.here->flush();
    (void)until([&] { return !c.heard_there.reasons.empty() && !c.heard_here.reasons.empty(); });
    found_.expect(!c.heard_there.reasons.empty() &&
                      c.heard_there.reasons.front().find("not wanted") != std::string::npos,
                  "what begin() throws is not the reason for which the connection closes");
    found_.expect(!c.heard_here.reasons.empty(), "the other end stays open when begin() throws");
  }

  void check_closing_inside() {
    conversation c;
    if (!connect(c)) return;
    c.heard_there.on_end = [&] { c.there.reset(); };
    for (int i = 0; i < 3; ++i) c.here->send(header_of(0), {}, bytes_of(10, 0));
    c.here->flush();
    found_.expect(until([&] { return !c.heard_here.reasons.empty(); }),
                  "the other end is not told when a connection is destroyed");
    found_.expect(c.heard_there.frames.size() == 1, "who has destroyed its connection in end() hears ",
                  c.heard_there.frames.size() - 1, " frames more");
  }

  void check_dialing() {
    conversation c;
    if (!connect(c)) return;
    net::address const gone = c.listener->bound();
    c.listener.reset();
    conversation late;
    dial(late, gone);
    found_.expect(until([&] { return late.told; }) && !late.here,
                  "who dials where nobody listens any more is not told that nobody answers");
    conversation dropped;
    dial(dropped, gone);
    dropped.handle.reset();
    linger();
    found_.expect(!dropped.told, "dial() calls back after its handle has been dropped");
    c.here->send(header_of(0), {}, bytes_of(10, 0));
    c.here->flush();
    found_.expect(until([&] { return c.heard_there.frames.size() == 1; }),
                  "a connection ends with the listener that it came by");
  }

  network_check how_;
  std::unique_ptr<net::network> here_, there_;
  findings found_;
};

}  // namespace detail

sentences check_network(net::network_maker const& make, network_check const& how) {
  return detail::network_checker(make, how).run();
}

}  // namespace rubato::testing
