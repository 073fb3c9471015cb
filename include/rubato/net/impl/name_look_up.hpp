// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <functional>
#include <memory>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "rubato/net/address.hpp"

namespace rubato::net {

/// Asks for what takes the system long, such as a host's number where DNS does not answer, in a thread that nobody
/// waits for: the system cannot be interrupted meanwhile, and a resolver of Asio's own holds up its context's end.
class name_look_up {
 public:
  using results = boost::asio::ip::tcp::resolver::results_type;
  using asking = std::function<results(boost::system::error_code&)>;
  using answered = std::function<void(boost::system::error_code const&, results const&)>;

  /// Calls `then` from inside `context`, which outlives this, unless this is gone by then. `ask` may outlive both.
  /// @throws std::system_error where no thread can be started
  name_look_up(boost::asio::io_context& context, asking ask, answered then);
  name_look_up(name_look_up const&) = delete;
  name_look_up& operator=(name_look_up const&) = delete;
  ~name_look_up();

 private:
  struct shared;
  std::shared_ptr<shared> shared_;
};

/// Asks the system for this host's numbers.
[[nodiscard]] name_look_up::asking numbers_of(address const& at);

}  // namespace rubato::net
