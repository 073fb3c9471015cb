// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <catch2/catch.hpp>

#include <string>
#include <utility>
#include <vector>

#include "rubato/core/error.hpp"
#include "src/tools/server/options.hpp"

namespace rubato::test {

/// What `rubato-server` makes of these words.
inline server_tool::options parsed(std::vector<std::string> given) {
  given.insert(given.begin(), "rubato-server");
  std::vector<char const*> argv;
  for (auto const& w : given) argv.push_back(w.c_str());
  int exit_code = 0;
  auto const o = server_tool::parse(static_cast<int>(argv.size()), argv.data(), exit_code);
  REQUIRE(o);
  return *o;
}

/// What it says of them, if they are wrong.
inline std::string complaint(std::vector<std::string> given) {
  try {
    (void)parsed(std::move(given));
  } catch (option_error const& e) {
    return e.what();
  }
  return "";
}

}  // namespace rubato::test
