// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace rubato::tools {

/// Makes all options of a program and its commands that take a value refuse an empty one, which mostly is a variable of
/// a script that is not set. It would do as if the option were not there: for a token's file, with no token.
inline void refuse_empty_values(CLI::App& app) {
  CLI::Validator const is_given([](std::string& text) { return text.empty() ? "is empty, expected a value" : ""; }, "");
  for (CLI::Option* const option : app.get_options())
    if (option->get_expected_max() > 0) option->check(is_given);
  for (CLI::App* const command : app.get_subcommands([](CLI::App*) { return true; })) refuse_empty_values(*command);
}

}  // namespace rubato::tools
