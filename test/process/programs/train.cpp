// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "process/program.hpp"
#include "rubato/protocol/asp.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/protocol/con_sgd.hpp"
#include "rubato/protocol/ssp.hpp"

using namespace rubato;

int main(int count, char** texts) {
  return test::main_of(count, texts, [](test::arguments const& given) {
    std::string const named = given.text("protocol", "bsp");
    std::string const name = named.substr(0, named.find(':'));
    staleness const s = test::staleness_of(named);
    if (name == "bsp") return test::run_program(bsp{}, given);
    if (name == "ssp") return test::run_program(ssp{.staleness = s}, given);
    if (name == "asp") return test::run_program(asp{}, given);
    if (name == "con_sgd") return test::run_program(con_sgd{.staleness = s}, given);
    throw option_error("no protocol " + named);
  });
}
