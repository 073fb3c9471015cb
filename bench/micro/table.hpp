// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace rubato::bench {

/// What a measurement is compared with, and how it is counted.
struct micro_row {
  std::string name;      ///< of the benchmark, as registered
  std::string baseline;  ///< of the one measured beside it; empty for none
  double per_second = 0; ///< units per iteration where a rate says more than a time; else 0
  std::string unit;      ///< of the rate
  std::string bound;     ///< what the project promises, for the reader
};

/// Runs the registered benchmarks in random alternation, so that each meets the same moods of the
/// machine, and prints one line per row: median, spread, and the median ratio to its baseline.
/// @throws option_error where nothing at all matches the filter
void run_micro(std::vector<micro_row> const& rows, int repetitions, double min_time,
               std::string const& filter);

/// Registers benchmarks of a subject and says what each is beside.
std::vector<micro_row> register_memory();     ///< pulls, pushes and commits in process
std::vector<micro_row> register_rows();       ///< single rows, sparse tables
std::vector<micro_row> register_tables();     ///< many tables beside one, in process and over TCP
std::vector<micro_row> register_keys();       ///< some of many rows
std::vector<micro_row> register_caches();     ///< of workers and processes
std::vector<micro_row> register_topics();     ///< LDA, beside a plain sampler
std::vector<micro_row> register_versions();   ///< tables that keep versions
std::vector<micro_row> register_peers();      ///< peers without a server
std::vector<micro_row> register_waits();      ///< threads that wait for each other
std::vector<micro_row> register_stages();     ///< stages of a task
std::vector<micro_row> register_simulator();  ///< events per second
std::vector<micro_row> register_tcp();        ///< pulls and pushes over TCP, beside plain sockets
std::vector<micro_row> register_tcp_peers();  ///< peers over TCP, beside plain sockets
std::vector<micro_row> register_tcp_averages();  ///< by workers and a server over TCP
std::vector<micro_row> register_tcp_training();  ///< on sparse examples over TCP

/// Prints what simulations of a hundred thousand workers have taken, if there were any.
void print_simulator_memory();
/// Measures the memory of server processes and prints a line for each whose name matches.
void print_server_memory(std::string const& filter);
[[nodiscard]] bool names_server_memory(std::string const& filter);

}  // namespace rubato::bench
