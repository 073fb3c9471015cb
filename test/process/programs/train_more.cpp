// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// As train.cpp, with the protocols that keep versions, hold commits back or conduct their pace.
#include "process/program.hpp"
#include "rubato/protocol/adsp.hpp"
#include "rubato/protocol/dyn_sgd.hpp"
#include "rubato/protocol/protocol.hpp"
#include "rubato/protocol/ssp.hpp"
#include "rubato/protocol/visibility.hpp"

using namespace rubato;
using namespace std::chrono_literals;

int main(int count, char** texts) {
  return test::main_of(count, texts, [](test::arguments const& given) {
    std::string const named = given.text("protocol");
    std::string const name = named.substr(0, named.find(':'));
    staleness const s = test::staleness_of(named);
    if (name == "dyn_sgd") return test::run_program(dyn_sgd{.staleness = s}, given);
    if (name == "dyn_sgd_cut")
      return test::run_program(with(dyn_sgd{.staleness = s}, stable_cut{}), given);
    if (name == "ssp_strict") return test::run_program(with(ssp{.staleness = s}, strict{}), given);
    if (name == "adsp")
      return test::run_program(
          adsp{.check_period = 50ms, .epoch = 400ms, .probe_period = 50ms, .search = false}, given);
    throw option_error("no protocol " + named);
  });
}
