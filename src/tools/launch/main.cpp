// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// rubato-launch: a whole run on this machine from one command.
#include <exception>
#include <iostream>
#include <optional>

#include "rubato/core/error.hpp"
#include "src/tools/launch/options.hpp"
#include "src/tools/launch/supervisor.hpp"
#include "src/tools/standard_output.hpp"

int main(int argc, char** argv) {
  std::optional<rubato::launch::options> options;
  auto const say_why = [&](std::exception const& e) {
    rubato::launch::say(e.what(), options ? options->logs : rubato::net::log_format::text);
  };
  try {
    options = rubato::launch::parse(argc, argv, std::cout);
    if (options) return rubato::launch::supervise(*options);
    rubato::tools::flush_output();
    return 0;
  } catch (rubato::option_error const& bad) {
    say_why(bad);
    return 2;
  } catch (std::exception const& failure) {
    say_why(failure);
    return 1;
  }
}
