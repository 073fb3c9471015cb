// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/core/error.hpp>

#include <catch2/catch.hpp>

#include <concepts>
#include <stdexcept>
#include <string>

using namespace rubato;

namespace {

static_assert(std::derived_from<error, std::runtime_error>);
static_assert(std::derived_from<option_error, error> && std::derived_from<usage_error, error>);
static_assert(std::derived_from<data_error, error> && std::derived_from<deadlock_error, error>);
// A handler for one kind does not catch another.
static_assert(!std::derived_from<option_error, usage_error>);
static_assert(!std::derived_from<deadlock_error, usage_error>);

template <class E>
void check_caught_as_error(E const& thrown, errc code) {
  try {
    throw thrown;
  } catch (error const& e) {
    CHECK(e.code() == code);
    CHECK(std::string(e.what()) == "the sentence");
    return;
  }
  FAIL("not caught");
}

}  // namespace

TEST_CASE("error: each kind carries its code and its sentence") {
  check_caught_as_error(error(errc::refused, "the sentence"), errc::refused);
  check_caught_as_error(option_error("the sentence"), errc::bad_option);
  check_caught_as_error(usage_error(errc::unknown_key, "the sentence"), errc::unknown_key);
  check_caught_as_error(data_error("the sentence"), errc::bad_data);
  check_caught_as_error(data_error("the sentence", errc::io), errc::io);
  check_caught_as_error(deadlock_error("the sentence"), errc::deadlock);
}
