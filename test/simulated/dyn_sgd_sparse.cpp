// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "simulated/dyn_sgd_family.hpp"

using namespace rubato;

TEST_CASE("DynSGD on sparse rows: every read is a sum of means of versions",
          "[simulated][dyn_sgd]") {
  test::check_versions<false, eager>(versions::exact);
}

TEST_CASE("DynSGD on sparse rows: the same with capped versions",
          "[simulated][dyn_sgd]") {
  test::check_versions<false, eager>(versions::capped);
}

TEST_CASE("DynSGD on sparse rows: the same with the strict window",
          "[simulated][dyn_sgd]") {
  test::check_versions<false, strict>(versions::exact);
}

TEST_CASE("DynSGD on sparse rows: the same with stable cuts",
          "[simulated][dyn_sgd][stable_cut]") {
  test::check_versions<false, stable_cut>(versions::exact);
}
