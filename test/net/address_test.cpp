// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <catch2/catch.hpp>
#include <rubato/core/error.hpp>
#include <rubato/net/address.hpp>
#include <string>

using namespace rubato;
using Catch::Contains;
using net::address;

TEST_CASE("addresses are read and shown", "[net]") {
  CHECK(address::parse("127.0.0.1:7000") == address{"127.0.0.1", 7000});
  CHECK(address::parse("node-3.cluster:0") == address{"node-3.cluster", 0});
  CHECK(address::parse("[::1]:65535") == address{"::1", 65535});
  CHECK(address::parse("unix:/tmp/a b") == address{"", 0, "/tmp/a b"});
  for (std::string const text : {"127.0.0.1:7000", "[::1]:80", "name:1", "unix:/run/x"})
    CHECK(address::parse(text).text() == text);
}

TEST_CASE("what is no address is refused, and shown", "[net]") {
  for (std::string const text :
       {"", "host", ":80", "host:", "host:65536", "host:-1", "host:8x", "::1:80", "[host]:80",
        "[::1]", "[]:80", "unix:", "a host:80", "http://host:80"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(address::parse(text), option_error);
    CHECK_THROWS_WITH(address::parse(text),
                      Contains("'" + text + "'") && Contains("expected host:port"));
  }
}

TEST_CASE("what the loopback network is", "[net]") {
  for (char const* const text : {"localhost:1", "127.0.0.1:1", "127.8.9.10:1", "[::1]:1",
                                 "[::ffff:127.0.0.1]:1", "unix:/tmp/x"})
    CHECK(address::parse(text).is_loopback());
  for (char const* const text : {"0.0.0.0:1", "[::]:1", "192.168.1.1:1", "example.org:1",
                                 "localhost.example.org:1", "[::ffff:10.0.0.1]:1"})
    CHECK_FALSE(address::parse(text).is_loopback());
}
