// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Instead of families/, in builds that leave them out.
#include "bench/processes/cluster.hpp"
#include "rubato/core/error.hpp"

namespace rubato::bench {
namespace {

[[noreturn]] void reject() {
  throw option_error("--transport: tcp is not available in builds with sanitizers");
}

}  // namespace

std::unique_ptr<process_cluster> make_process_cluster(net::deployment const&, std::uint64_t,
                                                      rules<strict, average, every> const&,
                                                      dense<float> const&) {
  reject();
}
std::unique_ptr<process_cluster> make_process_cluster(net::deployment const&, std::uint64_t,
                                                      rules<eager, scale, every> const&,
                                                      dense<float> const&) {
  reject();
}
std::unique_ptr<process_cluster> make_process_cluster(net::deployment const&, std::uint64_t,
                                                      rules<eager, revise, every> const&,
                                                      multi_version<dense<float>> const&) {
  reject();
}
std::unique_ptr<process_cluster> make_process_cluster(
    net::deployment const&, std::uint64_t, rules<strict, average, adaptive_period> const&,
    dense<float> const&) {
  reject();
}
std::unique_ptr<process_cluster> make_process_cluster(net::deployment const&, std::uint64_t,
                                                      rules<eager, scale, commit_rate> const&,
                                                      dense<float> const&) {
  reject();
}

}  // namespace rubato::bench
