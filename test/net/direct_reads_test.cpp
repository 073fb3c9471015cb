// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Which sockets are tried before the system tells of them, by played ones.
#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "rubato/net/impl/direct_reads.hpp"

using namespace rubato::net;

namespace {

/// A socket that has something to be read as often as a test says.
class played_reader final : public direct_reads::reader {
 public:
  played_reader(direct_reads& all, char name, std::string& tries) : all_(all), name_(name), tries_(tries) {
    all_.add(*this);
  }
  played_reader(played_reader const&) = delete;
  played_reader& operator=(played_reader const&) = delete;
  ~played_reader() override {
    if (!forgot) all_.remove(*this);
  }

  int has = 0;
  bool forgot = false;

  bool try_to_read() override {
    tries_ += name_;
    if (has == 0) return false;
    --has;
    all_.note_read(*this);
    return true;
  }
  void forget_user() noexcept override { forgot = true; }

 private:
  direct_reads& all_;
  char name_;
  std::string& tries_;
};

struct played_sockets {
  boost::asio::io_context context;
  direct_reads& all = boost::asio::use_service<direct_reads>(context);
  std::string tries;
};

}  // namespace

TEST_CASE("two sockets are tried in turn", "[net]") {
  played_sockets s;
  CHECK(s.all.pays());
  CHECK_FALSE(s.all.read_one());
  played_reader a(s.all, 'a', s.tries);
  played_reader b(s.all, 'b', s.tries);
  a.has = b.has = 2;
  for (int i = 0; i < 4; ++i) CHECK(s.all.read_one());
  CHECK((s.tries == "baba" || s.tries == "abab"));
  CHECK_FALSE(s.all.read_one());
  CHECK(s.tries.size() == 6);  // both
}

TEST_CASE("of three sockets none is tried, until one is gone", "[net]") {
  played_sockets s;
  played_reader a(s.all, 'a', s.tries);
  played_reader b(s.all, 'b', s.tries);
  std::optional<played_reader> c(std::in_place, s.all, 'c', s.tries);
  a.has = 1;
  CHECK_FALSE(s.all.pays());
  CHECK_FALSE(s.all.read_one());
  CHECK(s.tries.empty());
  c.reset();
  CHECK(s.all.pays());
  CHECK(s.all.read_one());
}

TEST_CASE("none is tried while something else is waited for", "[net]") {
  played_sockets s;
  played_reader a(s.all, 'a', s.tries);
  a.has = 1;
  {
    direct_reads::other first(s.all);
    auto second = std::make_unique<direct_reads::other>(s.all);
    direct_reads::other const moved(std::move(first));
    CHECK_FALSE(s.all.read_one());
    second.reset();
    CHECK_FALSE(s.all.read_one());
  }
  CHECK(s.tries.empty());
  CHECK(s.all.read_one());
}

TEST_CASE("a socket that has had nothing 32 times is left to the system, until that has told of it", "[net]") {
  played_sockets s;
  played_reader quiet(s.all, 'q', s.tries);
  played_reader busy(s.all, 'b', s.tries);
  busy.has = 100;
  for (int i = 0; i < 100; ++i) REQUIRE(s.all.read_one());
  CHECK(std::ranges::count(s.tries, 'q') == 32);
  s.tries.clear();
  quiet.has = 1;
  CHECK_FALSE(s.all.read_one());
  CHECK(s.tries == "b");
  s.all.note_read(quiet);
  CHECK(s.all.read_one());
}

TEST_CASE("a context that goes lets go whom it would have told", "[net]") {
  std::string tries;
  std::optional<played_reader> one;
  std::optional<played_reader> other;
  {
    played_sockets s;
    one.emplace(s.all, 'a', tries);
    other.emplace(s.all, 'b', tries);
  }
  CHECK(one->forgot);
  CHECK(other->forgot);
}
