// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A whole server, with a coordinator that means well, a worker process that behaves, and two that
// say whatever the fuzzer wants. The input is a list of what happens; all of it in one thread and
// with a new server for each input, so that an input does the same every time.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/coordinator_end.hpp"
#include "fuzz/input.hpp"
#include "fuzz/worker_end.hpp"
#include "rubato/net/asio_network.hpp"
#include "rubato/net/log.hpp"
#include "rubato/protocol/dyn_sgd.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/protocol/rules.hpp"
#include "rubato/protocol/ssp.hpp"
#include "rubato/server/blueprint.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/storage/multi_version.hpp"
#include "rubato/storage/sparse.hpp"
#include "rubato/transport/processes/server_process.hpp"

namespace rubato::fuzz {
namespace {

// ---- what is served

/// Only the worker that behaves changes this table.
constexpr std::size_t guarded = 3;
constexpr std::size_t guarded_rows = 4, guarded_width = 2;
constexpr std::uint64_t sparse_max = 64 * 1024;
constexpr std::uint64_t many_rows = sparse_max / 8;  // most that a request may name
constexpr std::size_t wide_rows = 2, wide_width = 4200;  // more than 32 KiB, which take another way

/// The weights and the keyed rows keep versions where the protocol's merge does.
blueprint make_plan(rules protocol) {
  dense<float> const weights{.rows = 40, .width = 3};
  dense<float, sum> const wide{.rows = wide_rows, .width = wide_width};
  sparse<float> const keyed{.width = 2};
  dense<std::int64_t, sum> const counts{.rows = guarded_rows, .width = guarded_width};
  bool const versioned = protocol.merge.versioned();
  return {std::move(protocol), 1,
          {versioned ? describe(multi_version{weights}) : describe(weights), describe(wide),
           versioned ? describe(multi_version{keyed}) : describe(keyed), describe(counts)}};
}
constexpr std::size_t tables = 4;

rules protocol_from(std::size_t choice) {
  switch (choice) {
    case 0: return ssp{.staleness = 1};
    case 1: return basic_ssp<strict>{.staleness = 1};
    case 2: return dyn_sgd{.staleness = 1};
    default: return basic_dyn_sgd<stable_cut>{.staleness = 1};
  }
}

// ---- frames that a worker process sends

frame make_frame(wire::kind kind, std::uint32_t worker, std::uint32_t incarnation) {
  frame f;
  f.header.kind = +kind;
  f.header.sender = worker;
  f.header.incarnation = incarnation;
  return f;
}

template <class T>
void append_value(bytes& to, T value) {
  append(to, std::as_bytes(std::span(&value, 1)));
}
/// So many bytes, the same eight again and again.
void append_repeated(bytes& to, std::uint64_t value, std::uint64_t size) {
  std::vector<std::uint64_t> const all(static_cast<std::size_t>(size / sizeof value + 1), value);
  append(to, std::as_bytes(std::span(all)).first(static_cast<std::size_t>(size)));
}

/// What strangers lend, for as long as this program runs.
detail::chunk_arena& lent_memory() {
  static auto const arena = [] {
    auto made = detail::chunk_arena::make(1 << 16, {7});
    FUZZ_REQUIRE(made != nullptr);
    void* const some = made->take(1 << 16);
    std::fill_n(static_cast<std::uint32_t*>(some), (1 << 16) / sizeof(std::uint32_t), 0x3F80'0001U);  // a bit over 1
    return made;
  }();
  return *arena;
}

/// Some rows of a table, or all, also such as are lent, or sizes that no table has.
wire::part_size append_part(bytes& body, input& from, std::uint64_t rows, std::uint64_t width,
                            std::size_t element) {
  wire::part_size p;
  std::size_t const how = from.below(8);
  if (how < 2) return p;
  if (how == 2) {
    p.whole = true;
    p.bytes = rows * width * element;
    if (from.below(4) == 3) {
      p.place = from.below(8) == 7 ? from.number() : detail::arena_head_size + 64 * from.below(256);
      p.in_turns = from.flag();
      if (!p.in_turns) return p;  // else all of so small a one is its first piece
    }
  } else if (how == 3) {
    p = {from.flag(), from.number(), from.number()};
    append_pattern(body, from.byte(), 1);
    return p;
  } else {
    p.rows = from.below(5);
    p.bytes = p.rows * width * element;
    std::uint64_t row = from.number();
    for (std::uint64_t i = 0; i < p.rows; ++i, ++row)
      append_value(body, how == 7 ? from.number() : row);
  }
  append_repeated(body, from.number(), p.bytes);
  return p;
}

/// Whether a frame may change what the worker that behaves is to find: the server cannot know who
/// of those that have the token lies about who it is.
bool concerns_others(frame const& f, std::uint64_t session_of_other) {
  try {
    switch (f.header.kind) {
      case own::hello: {
        wire::input_archive in(f.meta);
        net::hello h;
        in >> h.as >> h.number >> h.incarnation >> h.session;
        return h.session == session_of_other;
      }
      case +wire::kind::request: return f.header.sender == 0;
      case +wire::kind::values: return f.header.table == guarded;
      case +wire::kind::commit: {
        if (f.header.sender == 0) return true;
        auto const parts = wire::from_bytes<wire::commit_meta>(f.meta).parts;
        return parts.size() > guarded && parts[guarded].bytes != 0;
      }
      default: return false;
    }
  } catch (wire::frame_error const&) {
    return false;
  }
}

/// A request for what this cut reflects.
void name_cut(commit_cut const& cut, wire::request_meta& m, bytes& body) {
  m.has_cut = true;
  m.cut_size = cut.size();
  m.cut_c_min = cut.c_min();
  for (std::uint32_t w = 0; w < cut.size(); ++w) append_value(body, cut.of(worker_id{w}).value());
}

bool concern_others(std::span<std::byte const> sent, std::uint64_t session_of_other) {
  try {
    while (auto const f = take_frame(sent))
      if (concerns_others(*f, session_of_other)) return true;
  } catch (wire::frame_error const&) {  // as far as the server reads, too
  }
  return false;
}

// ---- where they meet

std::string socket_path(char const* whose) {
  return "/tmp/rubato-fuzz-" + std::to_string(::getpid()) + "-" + whose;
}

/// Where servers find the coordinator.
int coordinator_door() {
  static int const door = [] {
    std::string const path = socket_path("coordinator");
    ::unlink(path.c_str());
    sockaddr_un const where = socket_address(path);
    int const fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    FUZZ_REQUIRE(::bind(fd, reinterpret_cast<sockaddr const*>(&where), sizeof where) == 0);
    FUZZ_REQUIRE(::listen(fd, 8) == 0);
    std::atexit([] { ::unlink(socket_path("coordinator").c_str()); });
    return fd;
  }();
  return door;
}

net::deployment make_place(bool waits_for_reconnection) {
  using namespace std::chrono_literals;
  net::deployment place;
  place.as = net::role::server;
  place.rank = 0;
  (void)coordinator_door();
  place.coordinator.path = socket_path("coordinator");
  place.listen = {.host = "", .port = 0, .path = socket_path("server")};
  // No input takes as long as the first, and the second is over at once.
  place.silence = 1h;
  place.reconnect = waits_for_reconnection ? 1h : 0h;
  return place;
}

class run {
 public:
  run(rules protocol, input& from)
      : from_(from),
        plan_(make_plan(std::move(protocol))),
        coordinator_(accepted(), plan_.synchronized(), pump_),
        good_(server_path(), {.number = 0, .session = good_session}, pump_),
        strangers_{worker_end(server_path(), {.number = 1, .session = 1}, pump_),
                   worker_end(server_path(), {.number = 2, .session = 2}, pump_)} {
    for (worker_end& s : strangers_)
      s.on_sent = [this](auto sent) {
        tampered_ = tampered_ || concern_others(sent, good_session);
      };
    for (worker_end* const w : {&good_, &strangers_[0], &strangers_[1]})
      w->on_connect = [this](net::hello const& h) { coordinator_.admit(h.number, h.incarnation); };
    good_.on_frame = [this](frame const& f) {
      if (f.header.kind == +wire::kind::memory) memory_ = wire::from_bytes<wire::memory_meta>(f.meta);
      else replies_.push_back(f);
    };
    coordinator_.settle();
    good_.connect();
  }

  void go() {
    if (from_.flag()) initial();  // before there is a stage
    begin_stage();
    for (std::size_t left = happenings_max; left > 0 && !from_.empty(); --left) {
      happen(from_.byte());
      if (from_.below(4) != 3) settle();
    }
    settle();
    for (worker_end& s : strangers_) s.cut();
    settle();
    read_guarded();
    count_commits();
    coordinator_.shut_down();
    pump_();
    server_.run();
  }

 private:
  static constexpr std::uint64_t good_session = 0x6F0E'51C3'9A27'4D8B;
  static constexpr std::uint32_t good_worker = 0;
  static constexpr std::size_t workers_max = 12;
  static constexpr std::size_t happenings_max = 100;

  static std::string server_path() { return socket_path("server"); }
  [[nodiscard]] int accepted() {
    pump_();
    int const fd = ::accept4(coordinator_door(), nullptr, nullptr, SOCK_CLOEXEC);
    FUZZ_REQUIRE(fd >= 0);
    return fd;
  }
  void settle() {
    coordinator_.settle();
    for (worker_end& s : strangers_) s.receive();
    good_.receive();
  }

  // ---- what happens

  void happen(std::uint8_t what) {
    worker_end& s = stranger(what & 1);
    switch (what / 2 % 27) {
      case 0: case 1: case 2: case 3: case 4: return commit(s);
      case 5: case 6: case 7: case 8: return request(s);
      case 9: return count(s);
      case 10: return initial();
      case 11: return any_frame(s);
      case 12: return own_frame(s);
      case 13: return s.send_raw(from_.take(from_.byte()));
      case 14: return s.cut();
      case 15: return s.connect(from_.below(4) == 3 ? from_.number() : 0);
      case 16: return s.knock(from_.take(from_.below(64)));
      case 17: case 18: return join(s);
      case 19: return leave();
      case 20: return lose(s);
      case 21: return s.restart(s.self().incarnation + static_cast<std::uint32_t>(from_.below(2)));
      case 22: return next_stage();
      case 23: return mapped(s);
      case 24: return released(s);
      case 25: return lend(s);
      default: return read_guarded();
    }
  }

  void begin_stage() {
    coordinator_.begin_stage();
    (void)coordinator_.join(0, 0);
    coordinator_.settle();
    push_guarded();
    for (worker_end& s : strangers_)
      (void)coordinator_.join(s.self().number, s.self().incarnation);
    coordinator_.settle();
  }
  /// All that still run are lost, but for the one that behaves: it ends well.
  void next_stage() {
    if (tampered_so_far()) return;  // the server may well wait for what will not come
    for (worker_end& s : strangers_) lose(s);
    coordinator_.settle();
    coordinator_.leave(worker_id{good_worker}, clock_index{1});
    coordinator_.end_stage();
    coordinator_.settle();
    FUZZ_REQUIRE(coordinator_.is_stage_over());
    begin_stage();
  }
  void join(worker_end& s) {
    if (coordinator_.members().size() < workers_max)
      (void)coordinator_.join(s.self().number, s.self().incarnation);
  }
  void leave() {
    std::size_t const w = from_.below(coordinator_.members().size());
    auto const& m = coordinator_.members()[w];
    auto const at = from_.flag() ? m.clock : static_cast<std::int64_t>(from_.number());
    if (w == good_worker) return;
    coordinator_.leave(worker_id{static_cast<std::uint32_t>(w)}, clock_index{at});
  }
  void lose(worker_end& s) {
    coordinator_.lose(s.self().number, s.self().incarnation);
    coordinator_.settle();
    s.restart(s.self().incarnation + 1);
  }

  // ---- what the two strangers send

  [[nodiscard]] worker_end& stranger(std::size_t which) {
    worker_end& s = strangers_[which];
    if (s.connections() == 0) s.connect();
    else if (s.has_ended()) s.restart(s.self().incarnation);  // the server does not forgive
    return s;
  }

  [[nodiscard]] frame stranger_frame(wire::kind kind, worker_end const& s) {
    std::uint8_t const choice = from_.byte();
    auto const worker = choice < 240 ? 1 + choice % workers_max : from_.number();
    auto const life = choice % 16 == 15 ? from_.number() : s.self().incarnation;
    return make_frame(kind, static_cast<std::uint32_t>(worker), static_cast<std::uint32_t>(life));
  }
  [[nodiscard]] stage_id some_stage() {
    std::uint8_t const choice = from_.byte();
    return choice < 248 ? coordinator_.stage() : stage_id{choice - 248U};
  }
  /// The clock that the server expects of this worker, if all that it was sent was taken.
  [[nodiscard]] std::int64_t* clock_of(std::uint32_t worker) {
    auto& members = coordinator_.members();
    return worker < members.size() ? &members[worker].clock : nullptr;
  }

  void commit(worker_end& s) {
    frame f = stranger_frame(wire::kind::commit, s);
    wire::commit_meta m;
    m.parts.resize(tables);
    m.stage = some_stage();
    std::int64_t* const clock = clock_of(f.header.sender);
    if (clock != nullptr && from_.below(16) != 15) m.stamp = clock_index{(*clock)++};
    else m.stamp = clock_index{static_cast<std::int64_t>(from_.number())};
    m.version = version_index{static_cast<std::int64_t>(from_.number())};
    m.parts[0] = append_part(f.body, from_, 40, 3, sizeof(float));
    m.parts[1] = append_part(f.body, from_, wide_rows, wide_width, sizeof(float));
    m.parts[2] = append_part(f.body, from_, 0, 2, sizeof(float));
    if (from_.below(32) == 31) m.parts.resize(from_.below(7));  // of other tables than there are
    f.meta = wire::to_bytes(m);
    send(s, std::move(f));
  }

  void request(worker_end& s) {
    frame f = stranger_frame(wire::kind::request, s);
    f.header.table = static_cast<std::uint16_t>(from_.below(5));
    f.header.sequence = from_.number();
    if (from_.below(8) == 7) f.header.sender = wire::observer;
    wire::request_meta m;
    m.stage = some_stage();
    std::int64_t const* const clock = clock_of(f.header.sender);
    bool const at_its_clock = clock != nullptr && from_.flag();
    m.clock = clock_index{at_its_clock ? *clock : static_cast<std::int64_t>(from_.number())};
    std::size_t const bound = from_.below(4);
    m.bound = bound < 3 ? staleness{static_cast<std::int64_t>(bound)} : staleness::infinite();
    m.asked = static_cast<selection>(from_.below(4));
    append_cut(f, m);
    if (m.asked == selection::rows || from_.below(16) == 15) append_rows(f, m);
    f.meta = wire::to_bytes(m);
    send(s, std::move(f));
  }
  void append_cut(frame& f, wire::request_meta& m) {
    std::size_t const how = from_.below(4);
    m.has_cut = how != 0;
    if (how == 1) {  // as the coordinator would have it
      name_cut(*coordinator_.grant(worker_id{1}), m, f.body);
      if (from_.flag()) coordinator_.release(worker_id{1});  // it may be folded by then
    } else if (how > 1) {
      m.cut_size = from_.below(6);
      m.cut_c_min = clock_index{static_cast<std::int64_t>(from_.number())};
      for (std::uint64_t i = 0; i < m.cut_size; ++i) append_value(f.body, from_.number());
      if (from_.below(16) == 15) m.cut_size = from_.number();
    }
  }
  void append_rows(frame& f, wire::request_meta& m) {
    std::size_t const how = from_.below(32);
    m.rows = how == 31 ? from_.number() : how == 30 ? many_rows : how % 6;
    if (how < 30) {
      for (std::uint64_t i = 0; i < m.rows; ++i) append_value(f.body, from_.number());
    } else {
      append_repeated(f.body, from_.number(), std::min(m.rows, many_rows) * 8);
    }
  }

  void count(worker_end& s) {
    frame f = make_frame(wire::kind::count, 1, s.self().incarnation);
    f.header.sequence = from_.number();
    send(s, std::move(f));
  }
  /// It sees the server's memory, most often the right one.
  void mapped(worker_end& s) {
    frame f = make_frame(wire::kind::mapped, 1, s.self().incarnation);
    f.header.sequence = from_.below(4) == 3 ? from_.number() : memory_.number;
    send(s, std::move(f));
  }
  /// It lends memory, most often such as there is.
  void lend(worker_end& s) {
    frame f = make_frame(wire::kind::memory, 1, s.self().incarnation);
    auto where = lent_memory().where();
    if (std::size_t const how = from_.below(16); how < 4) {
      if (how == 0) where.file = static_cast<std::uint32_t>(from_.below(32));
      if (how == 1) where.bytes = from_.number();
      if (how == 2) where.process = static_cast<std::uint32_t>(from_.number());
      if (how == 3) where.key[0] ^= 1;
    }
    f.meta = wire::to_bytes(where);
    send(s, std::move(f));
  }
  /// One of the first answers that were read there, or any.
  void released(worker_end& s) {
    frame f = make_frame(wire::kind::released, 1, s.self().incarnation);
    f.header.sequence = from_.below(4) == 3 ? from_.number() : 1 + from_.below(8);
    send(s, std::move(f));
  }
  void initial() {
    frame f = make_frame(wire::kind::values, 1, 0);
    f.header.table = static_cast<std::uint16_t>(from_.below(5));
    constexpr std::array<std::array<std::uint64_t, 2>, 5> shapes{
        {{40, 3}, {wide_rows, wide_width}, {0, 2}, {0, 0}, {1, 1}}};
    auto const [rows, width] = shapes[f.header.table];
    f.meta = wire::to_bytes(append_part(f.body, from_, rows, width, sizeof(float)));
    send(stranger(0), std::move(f));
  }
  void any_frame(worker_end& s) {
    frame f;
    f.header.kind = from_.byte();
    f.header.table = from_.byte();
    f.header.sender = from_.byte();
    f.header.sequence = from_.number();
    append(f.meta, from_.take(from_.byte()));
    append(f.body, from_.take(from_.byte()));
    s.send_raw(encoded(std::move(f)));
  }
  void own_frame(worker_end& s) {
    frame f;
    f.header.kind = static_cast<std::uint8_t>(from_.below(7));
    f.header.sequence = from_.number();
    if (f.header.kind == own::hello) f = hello_frame(s.self());
    if (f.header.kind == own::refused) append(f.meta, from_.take(from_.byte()));
    s.send_raw(encoded(std::move(f)));
  }

  /// Most often as it is; or damaged, or in two pieces, or twice.
  void send(worker_end& s, frame f) {
    bool const reliable = (f.header.kind & net::reliable_bit) != 0;
    if (reliable) f.header.sequence = s.next_sequence();
    std::uint8_t const how = from_.byte();
    if (how >= 252 && reliable) f.header.sequence = from_.number();
    bytes all = encoded(std::move(f));
    if (how < 224) return s.send_raw(all);
    std::size_t const at = (from_.byte() * std::size_t{256} + from_.byte()) % all.size();
    switch (how % 4) {
      case 0: all[at] ^= std::byte(1 + from_.below(255)); return s.send_raw(all);
      case 1:
        s.send_raw(std::span(all).first(at));
        settle();
        return s.send_raw(std::span(all).subspan(at));
      case 2: s.send_raw(all); return s.send_raw(all);
      default: return s.send_raw(std::span(all).first(at));  // the rest of it is what comes next
    }
  }

  // ---- the worker that behaves

  [[nodiscard]] bool tampered_so_far() {
    if (!tampered_)
      for (worker_end& s : strangers_)
        tampered_ = tampered_ || concern_others(s.sent(), good_session);
    return tampered_;
  }

  void push_guarded() {
    frame f = make_frame(wire::kind::commit, good_worker, 0);
    f.header.sequence = good_.next_sequence();
    wire::commit_meta m;
    m.stage = coordinator_.stage();
    m.parts.resize(tables);
    m.parts[guarded] = {true, 0, guarded_rows * guarded_width * sizeof(std::int64_t)};
    for (std::int64_t i = 1; i <= std::int64_t{guarded_rows * guarded_width}; ++i)
      append_value(f.body, i);
    f.meta = wire::to_bytes(m);
    good_.send_raw(encoded(std::move(f)));
    ++pushes_;
    settle();
  }

  [[nodiscard]] frame ask(frame f) {
    f.header.sequence = ++ticket_;
    replies_.clear();
    good_.send_raw(encoded(std::move(f)));
    settle();
    FUZZ_REQUIRE(good_.is_open());
    FUZZ_REQUIRE(replies_.size() == 1 && replies_.front().header.sequence == ticket_);
    return replies_.front();
  }

  void read_guarded() {
    if (tampered_so_far()) return;
    frame f = make_frame(wire::kind::request, good_worker, 0);
    f.header.table = guarded;
    wire::request_meta m{.stage = coordinator_.stage(),
                         .clock = clock_index{1},
                         .bound = staleness{1},
                         .asked = selection::rows,
                         .rows = guarded_rows};
    if (plan_.synchronized()) name_cut(*coordinator_.grant(worker_id{good_worker}), m, f.body);
    for (std::uint64_t row = 0; row < guarded_rows; ++row) append_value(f.body, row);
    f.meta = wire::to_bytes(m);
    frame const reply = ask(std::move(f));
    FUZZ_REQUIRE(reply.header.kind == +wire::kind::reply);
    if (plan_.synchronized()) coordinator_.release(worker_id{good_worker});
    bytes expected;
    for (std::int64_t i = 1; i <= std::int64_t{guarded_rows * guarded_width}; ++i)
      append_value(expected, i * pushes_);
    FUZZ_REQUIRE(reply.body == expected);
  }

  void count_commits() {
    if (tampered_so_far()) return;
    frame const reply = ask(make_frame(wire::kind::count, good_worker, 0));
    FUZZ_REQUIRE(reply.header.kind == +wire::kind::counted);
    FUZZ_REQUIRE(wire::from_bytes<std::uint64_t>(reply.meta) >= 1);
  }

  input& from_;
  blueprint plan_;
  detail::server_process server_{std::make_unique<net::asio_network>(), plan_, "",
                                 make_place(from_.flag()), sparse_max};
  std::function<void()> pump_ = [this] { server_.poll(); };
  coordinator_end coordinator_;
  worker_end good_;
  std::array<worker_end, 2> strangers_;
  bool tampered_ = false;
  std::int64_t pushes_ = 0;
  std::uint64_t ticket_ = 0;
  std::vector<frame> replies_;
  wire::memory_meta memory_{};  ///< as the server has told of it
};

}  // namespace
}  // namespace rubato::fuzz

// Connections take large buffers, and each input has new ones.
extern "C" char const* __asan_default_options() {
  return "quarantine_size_mb=16:malloc_context_size=8";
}

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  rubato::net::set_log([](rubato::net::log_level, std::string_view) {});
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace rubato::fuzz;
  input from(std::as_bytes(std::span(data, size)));
  run(protocol_from(from.below(4)), from).go();
  return 0;
}
