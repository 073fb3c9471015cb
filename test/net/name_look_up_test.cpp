// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <catch2/catch.hpp>

#include <rubato/net/impl/name_look_up.hpp>

#include <boost/asio/error.hpp>
#include <boost/asio/executor_work_guard.hpp>

#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <system_error>
#include <thread>

#include "no_more_threads.hpp"
#include "patience.hpp"

using namespace rubato;
using net::name_look_up;
namespace asio = boost::asio;

namespace {

/// Calls what a look-up has to tell.
void run_until_told(asio::io_context& context) {
  auto const work = asio::make_work_guard(context);
  context.run_one_for(test::patience);
}

/// A question that the system answers only when this is told to let go.
class unanswered {
 public:
  [[nodiscard]] name_look_up::asking question() {
    return [let_go = let_go_.get_future().share(), end = over_](boost::system::error_code&) {
      let_go.wait();
      return name_look_up::results();
    };
  }
  /// Lets go, and waits for the end of who asked.
  void answer() {
    std::weak_ptr<int> const left = over_;
    over_.reset();
    let_go_.set_value();
    auto const give_up = std::chrono::steady_clock::now() + test::patience;
    while (!left.expired() && std::chrono::steady_clock::now() < give_up)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(left.expired());
  }

 private:
  std::promise<void> let_go_;
  std::shared_ptr<int> over_ = std::make_shared<int>();
};

}  // namespace

TEST_CASE("a name's numbers are told from inside the context", "[net]") {
  asio::io_context context;
  std::optional<std::size_t> found;
  name_look_up const one(context, net::numbers_of({.host = "127.0.0.1", .port = 7}),
                         [&](auto const& error, auto const& numbers) {
                           CHECK_FALSE(error);
                           found = numbers.size();
                         });
  CHECK_FALSE(found);
  run_until_told(context);
  CHECK(found == 1u);
}

TEST_CASE("that a name has no number, or could not be asked for, is told", "[net]") {
  asio::io_context context;
  enum class end { answered, no_files, no_memory };
  auto const [how, expected] = GENERATE(Catch::Generators::table<end, boost::system::error_code>(
      {{end::answered, asio::error::host_not_found},
       {end::no_files, asio::error::no_descriptors},
       {end::no_memory, asio::error::no_memory}}));
  boost::system::error_code told;
  name_look_up const one(
      context,
      [fate = how](boost::system::error_code& error) {
        error = asio::error::host_not_found;
        if (fate == end::no_files) throw boost::system::system_error(asio::error::no_descriptors);
        if (fate == end::no_memory) throw std::bad_alloc();
        return name_look_up::results();
      },
      [&](auto const& error, auto const&) { told = error; });
  run_until_told(context);
  CHECK(told == expected);
}

TEST_CASE("nobody waits for a name that the system goes on looking for", "[net]") {
  unanswered system;
  bool told = false;
  auto context = std::make_unique<asio::io_context>();
  std::make_unique<name_look_up>(*context, system.question(), [&](auto const&, auto const&) { told = true; }).reset();
  context->poll();
  context.reset();  // would wait for a resolver of its own
  system.answer();
  CHECK_FALSE(told);
}

TEST_CASE("who gives a name up hears nothing of an answer on its way", "[net]") {
  asio::io_context context;
  unanswered system;
  bool told = false;
  std::optional<name_look_up> one;
  one.emplace(context, system.question(), [&](auto const&, auto const&) { told = true; });
  system.answer();
  one.reset();
  context.poll();
  CHECK_FALSE(told);
}

TEST_CASE("a name that no thread can look for is an error", "[net]") {
  asio::io_context context;
  auto const look = [&] {
    test::no_more_threads const limit;
    name_look_up const one(context, net::numbers_of({.host = "127.0.0.1", .port = 7}), [](auto const&, auto const&) {});
  };
  CHECK_THROWS_AS(look(), std::system_error);
}
