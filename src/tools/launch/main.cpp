// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// rubato-launch: a whole run on this machine from one command.
#include <exception>
#include <iostream>

#include "rubato/core/error.hpp"
#include "src/tools/launch/options.hpp"
#include "src/tools/launch/supervisor.hpp"

int main(int argc, char** argv) {
  try {
    auto const options = rubato::launch::parse(argc, argv, std::cout);
    return options ? rubato::launch::supervise(*options) : 0;
  } catch (rubato::option_error const& bad) {
    rubato::launch::say(bad.what());
    return 2;
  } catch (std::exception const& failure) {
    rubato::launch::say(failure.what());
    return 1;
  }
}
