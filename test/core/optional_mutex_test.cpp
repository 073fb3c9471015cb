// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/core/optional_mutex.hpp>

#include <catch2/catch.hpp>

#include <future>
#include <mutex>

using namespace rubato;

namespace {

/// Whether another thread gets it meanwhile.
bool is_free(optional_mutex& m) {
  return std::async(std::launch::async, [&m] {
           if (!m.try_lock()) return false;
           m.unlock();
           return true;
         }).get();
}

}  // namespace

TEST_CASE("optional_mutex: keeps others out where there are several threads, and only there") {
  optional_mutex single(threading::single);
  optional_mutex multiple(threading::multiple);
  optional_mutex unset;
  optional_mutex set;
  set.set(threading::multiple);
  {
    std::lock_guard const a(single);
    std::lock_guard const b(multiple);
    std::lock_guard const c(unset);
    std::lock_guard const d(set);
    CHECK(is_free(single));
    CHECK(is_free(unset));
    CHECK_FALSE(is_free(multiple));
    CHECK_FALSE(is_free(set));
  }
  CHECK(is_free(multiple));
  CHECK(is_free(set));
}
