// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "rubato/net/address.hpp"

namespace rubato::test {

/// Somebody who looks at a page of metrics.
class visitor {
 public:
  void connect(net::address const& at) {
    socket_.connect({boost::asio::ip::make_address(at.host), at.port});
  }
  /// Nothing where the page closes without an answer.
  std::string asks(std::string const& request) {
    std::string answer;
    boost::system::error_code end;
    boost::asio::write(socket_, boost::asio::buffer(request), end);
    boost::asio::read(socket_, boost::asio::dynamic_buffer(answer), end);
    return answer;
  }

 private:
  boost::asio::io_context io_;
  boost::asio::ip::tcp::socket socket_{io_, boost::asio::ip::tcp::v4()};
};

inline std::string get(net::address const& at, std::string const& request) {
  visitor v;
  v.connect(at);
  return v.asks(request);
}

inline std::string const counters_please = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

}  // namespace rubato::test
