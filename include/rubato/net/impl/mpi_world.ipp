// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/impl/mpi_world.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/net/log.hpp"
#include "rubato/wire/frame.hpp"

namespace rubato::net::detail {
namespace {

constexpr int tags_of_an_end = 2;  // of its bytes and of announcements, the next one
constexpr int first_tag = tags_of_an_end;
constexpr std::uint32_t control_magic = wire::frame_magic + wire::frame_version;

void check_mpi(int code, char const* what) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  std::string_view const why(text.data(), static_cast<std::size_t>(length));
  throw error(errc::io, fmt::format("MPI cannot {}: {}", what, why));
}

[[noreturn]] void throw_finalized() {
  throw option_error(
      "MPI has been finalized, and cannot be used again: clusters over MPI must end before MPI_Finalize");
}

/// Whether it was for this process to do.
bool initialize() {
  int done = 0;
  MPI_Finalized(&done);
  if (done != 0) throw_finalized();
  int begun = 0;
  int granted = MPI_THREAD_SINGLE;
  MPI_Initialized(&begun);
  if (begun != 0) MPI_Query_thread(&granted);
  else check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &granted), "be initialized");
  if (granted >= MPI_THREAD_SERIALIZED) return begun == 0;
  if (begun == 0) MPI_Finalize();
  throw option_error(
      "MPI grants calls of one thread only, but a process's workers are threads of their own; expected at least "
      "MPI_THREAD_SERIALIZED: ask MPI_Init_thread for that, or leave it to Rubato to initialize MPI");
}

/// Well or not: of a message that nobody wants.
bool is_over(MPI_Request& request) {
  int done = 0;
  return MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0;
}

MPI_Datatype datatype_of(element_type element) {
  switch (element) {
    case element_type::float32: return MPI_FLOAT;
    case element_type::float64: return MPI_DOUBLE;
    case element_type::int32: return MPI_INT32_T;
    case element_type::int64: break;
  }
  return MPI_INT64_T;
}

int ranks_on_this_machine() {
  MPI_Comm here = MPI_COMM_NULL;
  int count = 1;
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here),
            "tell who shares a machine");
  MPI_Comm_size(here, &count);
  MPI_Comm_free(&here);
  return count;
}

}  // namespace

mpi_world& mpi_world::get() {
  static mpi_world world;
  if (world.over_) throw_finalized();
  return world;
}

mpi_world::mpi_world() : inbox_(small_max), initialized_here_(initialize()) {
  for (MPI_Comm* const one : {&comm_, &large_}) {
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, one), "duplicate MPI_COMM_WORLD");
    MPI_Comm_set_errhandler(*one, MPI_ERRORS_RETURN);
  }
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &count_);
  check_mpi(MPI_Comm_split(comm_, rank_ == 0 ? MPI_UNDEFINED : 0, rank_, &others_), "tell the first rank from others");
  if (others_ != MPI_COMM_NULL) MPI_Comm_set_errhandler(others_, MPI_ERRORS_RETURN);
  crowded_ = ranks_on_this_machine() > ::sysconf(_SC_NPROCESSORS_ONLN);
  void* most = nullptr;
  int known = 0;
  MPI_Comm_get_attr(comm_, MPI_TAG_UB, &most, &known);
  if (known != 0) tag_max_ = *static_cast<int*>(most);
  // What is deleted first by whoever finalizes, while messages still go.
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &mpi_world::on_finalize, &key, nullptr);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, this);
  MPI_Comm_free_keyval(&key);
  check_mpi(MPI_Recv_init(inbox_.data(), static_cast<int>(small_max), MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm_,
                          &ready_),
            "receive");
}

mpi_world::~mpi_world() {
  // A program that exits in the middle of a run must not wait for others who wait for it: without MPI_Finalize
  // mpirun ends them all.
  if (!initialized_here_ || over_ || networks_ != 0) return;
  // The first rank that ends with a failure may be the others' end as well.
  std::fflush(nullptr);
  MPI_Finalize();
}

int mpi_world::on_finalize(MPI_Comm, int, void* world, void*) noexcept {
  try {
    static_cast<mpi_world*>(world)->finish();
  } catch (std::exception const& e) {
    log(log_level::warning, e.what());
  }
  return MPI_SUCCESS;
}

template <class Done>
void mpi_world::look_until(Done done) {
  using namespace std::chrono_literals;
  std::chrono::microseconds pause{0};
  while (!done()) {
    if (take_one()) pause = {};
    else std::this_thread::sleep_for(pause = std::min(pause + 1us, std::chrono::microseconds(1ms)));
  }
}

/// Messages that nobody wants any more may be on their way both ways, and whoever sends them must get rid of them.
void mpi_world::finish() {
  std::lock_guard const guard(mutex_);
  over_ = true;
  look_until([this] { return (void)tidy(), lingering_.empty(); });
  MPI_Request all = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(comm_, &all), "wait for the other ranks");
  look_until([&] { return (void)tidy(), test(all); });
  finish_sums();
  if (receives_) {
    MPI_Cancel(&ready_);
    MPI_Wait(&ready_, MPI_STATUS_IGNORE);
  }
  MPI_Request_free(&ready_);
  if (others_ != MPI_COMM_NULL) MPI_Comm_free(&others_);
  MPI_Comm_free(&large_);
  MPI_Comm_free(&comm_);
}

/// A rank whose program has failed early may have left one out, for which the others would wait for ever.
void mpi_world::finish_sums() {
  if (count_ == 1) return;
  constexpr std::int32_t none = std::numeric_limits<std::int32_t>::min();
  std::array<std::int32_t, 2> const mine{rank_ == 0 ? none : places_, rank_ == 0 ? none : -places_};
  std::array<std::int32_t, 2> most{};
  MPI_Request all = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallreduce(mine.data(), most.data(), 2, MPI_INT32_T, MPI_MAX, comm_, &all), "count sums");
  look_until([&] { return test(all); });
  if (most[0] == -most[1]) look_until([this] { return (void)tidy(), lasting_ == nullptr; });
}

int mpi_world::add(end& e, int source) {
  do next_tag_ = next_tag_ >= tag_max_ - tags_of_an_end ? first_tag : next_tag_ + tags_of_an_end;
  while (ends_.contains(next_tag_));
  ends_.emplace(next_tag_, known_end{&e, source});
  return next_tag_;
}

std::uint16_t mpi_world::add(door& d, std::uint16_t number) {
  if (number == 0) {
    do number = next_number_ = static_cast<std::uint16_t>(next_number_ == 65535 ? 32768 : next_number_ + 1);
    while (doors_.contains(number));
  }
  if (!doors_.emplace(number, &d).second)
    throw error(errc::io, fmt::format("rank-{}:{} is listened at already, in this process", rank_, number));
  return number;
}

/// The next receive begins when somebody looks for it, by when this message has been answered: its sender need not
/// wait for that as well.
bool mpi_world::take_one(mpi_desk const* by) {
  if (!receives_) check_mpi(MPI_Start(&ready_), "receive");
  receives_ = true;
  int found = 0;
  MPI_Status from;
  int const code = MPI_Test(&ready_, &found, &from);
  receives_ = code == MPI_SUCCESS && found == 0;
  check_mpi(code, "look for messages");
  if (found == 0) return false;
  int bytes = 0;
  MPI_Get_count(&from, MPI_BYTE, &bytes);
  hand_out(from, std::span(inbox_).first(static_cast<std::size_t>(bytes)), by);
  return true;
}

void mpi_world::hand_out(MPI_Status const& from, std::span<std::byte const> bytes, mpi_desk const* by) {
  if (from.MPI_TAG == control_tag) return take_control(from.MPI_SOURCE, bytes);
  int const tag = from.MPI_TAG - from.MPI_TAG % tags_of_an_end;
  if (from.MPI_TAG != tag) return take_large(from.MPI_SOURCE, tag, bytes);
  auto const at = ends_.find(tag);
  // Or else an end that has closed: the other one may not know yet.
  if (at != ends_.end() && at->second.source == from.MPI_SOURCE) at->second.to->come(bytes, by);
}

void mpi_world::take_large(int source, int tag, std::span<std::byte const> announcement) {
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, announcement.data(), std::min(sizeof bytes, announcement.size()));
  auto const at = ends_.find(tag);
  if (at != ends_.end() && at->second.source == source) at->second.to->come_large(static_cast<std::size_t>(bytes));
  else drop(source, tag, static_cast<std::size_t>(bytes));
}

void mpi_world::take_control(int source, std::span<std::byte const> bytes) {
  mpi_control said;
  if (bytes.size() != sizeof said)
    return log(log_level::warning, fmt::format("rank-{}: a message of {} bytes about connections, expected {}", source,
                                               bytes.size(), sizeof said));
  std::memcpy(&said, bytes.data(), sizeof said);
  if (said.magic != control_magic)
    return log(log_level::warning,
               fmt::format("rank-{}: what it says of connections is of another version of Rubato", source));
  if (said.what == mpi_control::kind::dial) {
    auto const at = said.number > 65535 ? doors_.end() : doors_.find(static_cast<std::uint16_t>(said.number));
    if (at != doors_.end()) return at->second->called(source, said);
    return tell(source, {.what = mpi_control::kind::nobody, .to = said.from});
  }
  auto const at = ends_.find(said.to);
  if (at != ends_.end() && at->second.source == source) return at->second.to->answered(said);
  if (said.what == mpi_control::kind::accepted) send_end(source, said.from);  // nobody waits for it any more
}

MPI_Request mpi_world::start(int to, int tag, std::span<std::byte const> bytes, MPI_Comm over) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, tag, over, &request), "send");
  return request;
}

void mpi_world::send(int to, int tag, std::span<std::byte const> bytes, sent& how) {
  bool const is_large = bytes.size() > small_max;
  if (is_large) {
    how.announced = bytes.size();
    how.announcement = start(to, tag + 1, std::as_bytes(std::span(&how.announced, 1)), comm_);
  }
  how.message = start(to, tag, bytes, is_large ? large_ : comm_);
}

void mpi_world::tell(int to, mpi_control said) {
  said.magic = control_magic;
  auto const kept = std::make_shared<mpi_control const>(said);
  linger({start(to, control_tag, std::as_bytes(std::span(kept.get(), 1)), comm_)}, kept);
}

void mpi_world::send_end(int to, int tag) { linger({start(to, tag, {}, comm_)}, nullptr); }

MPI_Request mpi_world::receive(int from, int tag, std::span<std::byte> into) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Irecv(into.data(), static_cast<int>(into.size()), MPI_BYTE, from, tag, large_, &request), "receive");
  return request;
}

bool mpi_world::test(MPI_Request& request) {
  int done = 0;
  check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "complete a message");
  return done != 0;
}

void mpi_world::drop(int from, int tag, std::size_t bytes) {
  if (bytes > message_max)  // nobody here sends that, so nobody here takes memory for it
    return log(log_level::warning, fmt::format("a message of {} bytes, expected at most {}", bytes, message_max));
  auto const nowhere = std::make_shared<std::vector<std::byte>>(bytes);
  linger({receive(from, tag, *nowhere)}, nowhere);
}

void mpi_world::linger(std::vector<MPI_Request> requests, std::shared_ptr<void const> what) {
  std::erase_if(requests, is_over);
  if (!requests.empty()) lingering_.push_back({std::move(requests), std::move(what)});
}

std::vector<std::shared_ptr<void const>> mpi_world::tidy() {
  std::vector<std::shared_ptr<void const>> done;
  std::erase_if(lingering_, [&](lingering& l) {
    std::erase_if(l.requests, is_over);
    if (!l.requests.empty()) return false;
    done.push_back(std::move(l.what));
    return true;
  });
  for (auto* at = &lasting_; *at != nullptr;) {
    done.push_back(*at);
    if ((*at)->ends()) {
      *at = std::exchange((*at)->next_, nullptr);
    } else {
      done.pop_back();
      at = &(*at)->next_;
    }
  }
  return done;
}

std::int32_t mpi_world::queue_up() {
  if (others_ == MPI_COMM_NULL) throw option_error("the first rank of an MPI job has no part in the sums of others");
  return places_++;
}

MPI_Request mpi_world::join_others(MPI_Comm& made) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Comm_idup(others_, &made, &request), "duplicate a communicator");
  return request;
}

void mpi_world::leave_others(MPI_Comm& made) {
  if (made != MPI_COMM_NULL) MPI_Comm_free(&made);
}

void mpi_world::sum_among_others(MPI_Comm among, element_type element, std::span<std::byte const> mine,
                                 std::span<std::byte> total, std::vector<MPI_Request>& requests) {
  constexpr std::size_t elements_max = std::size_t{1} << 30;  // MPI counts in int
  std::size_t const most = elements_max * size_of(element);
  for (std::size_t at = 0; at < mine.size(); at += most) {
    std::size_t const bytes = std::min(most, mine.size() - at);
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Iallreduce(mine.data() + at, total.data() + at, static_cast<int>(bytes / size_of(element)),
                             datatype_of(element), MPI_SUM, among, &request),
              "add up");
    requests.push_back(request);
  }
}

}  // namespace rubato::net::detail
