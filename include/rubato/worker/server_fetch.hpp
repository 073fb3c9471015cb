// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <exception>
#include <memory>

#include "rubato/core/ids.hpp"
#include "rubato/server/messages.hpp"
#include "rubato/server/read_slot.hpp"

namespace rubato::detail {

/// What a transport keeps with a fetch that is under way.
struct fetch_carrier {
  fetch_carrier() = default;
  fetch_carrier(fetch_carrier const&) = delete;
  fetch_carrier& operator=(fetch_carrier const&) = delete;
  virtual ~fetch_carrier() = default;
};

/// What a process asks a server for, in the name of one of its workers, from the question to the answer. The
/// process keeps it until then.
struct server_fetch {
  server_fetch() = default;
  server_fetch(server_fetch const&) = delete;
  server_fetch& operator=(server_fetch const&) = delete;
  virtual ~server_fetch() = default;
  /// The slot holds the answer, or there will be none. It may be gone afterwards.
  virtual void done(refusal why) = 0;
  /// The same where the answer could not be read, for want of memory: whoever waits for it hears why.
  virtual void failed(std::exception_ptr const& why) = 0;

  server_id server;
  std::size_t table = 0;
  read_header read;
  read_slot slot;
  std::unique_ptr<fetch_carrier> carrier;
};

/// Who brings a process's fetches to servers, and their answers back. Between a process and a server nothing
/// overtakes: neither a fetch what the workers of the process have posted before, nor an answer another one.
class server_fetcher {
 public:
  virtual ~server_fetcher() = default;
  /// `f.done` or `f.failed` follows, once, unless this throws or all are withdrawn.
  virtual void ask(server_fetch& f) = 0;
  /// The same for whoever is in `done` of another one.
  virtual void ask_in_turn(server_fetch& f) = 0;
  /// Nothing is written into any from now on, nor is one done.
  virtual void withdraw_all() = 0;
};

}  // namespace rubato::detail
