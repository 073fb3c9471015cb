// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/micro/table.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>

#include "rubato/core/error.hpp"

namespace rubato::bench {
namespace {

/// Keeps every repetition's time instead of printing it.
class collector : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(Context const&) override { return true; }
  void ReportRuns(std::vector<Run> const& runs) override {
    for (Run const& r : runs) {
      if (r.error_occurred) fmt::print(stderr, "{}: {}\n", r.run_name.function_name, r.error_message);
      if (r.run_type != Run::RT_Iteration || r.error_occurred) continue;
      times_[r.run_name.function_name].push_back(r.real_accumulated_time /
                                                 static_cast<double>(r.iterations));
    }
  }
  [[nodiscard]] std::vector<double> const* times(std::string const& name) const {
    auto const at = times_.find(name);
    return at == times_.end() ? nullptr : &at->second;
  }

 private:
  std::map<std::string, std::vector<double>> times_;  // seconds per iteration
};

double median(std::vector<double> v) {
  std::ranges::sort(v);
  std::size_t const n = v.size();
  return n % 2 == 1 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/// Half of the repetitions lie within this share of the median.
double spread(std::vector<double> const& v) {
  double const m = median(v);
  std::vector<double> off;
  for (double const x : v) off.push_back(std::abs(x - m));
  return median(off) / m;
}

std::string pretty_time(double s) {
  if (s < 1e-6) return fmt::format("{:.0f} ns", s * 1e9);
  if (s < 1e-3) return fmt::format("{:.1f} us", s * 1e6);
  return fmt::format("{:.2f} ms", s * 1e3);
}

void print_row(micro_row const& row, collector const& measured) {
  auto const* times = measured.times(row.name);
  if (times == nullptr) return;
  double const m = median(*times);
  std::string ratio = "";
  if (auto const* base = row.baseline.empty() ? nullptr : measured.times(row.baseline))
    ratio = fmt::format("{:.2f} x {}", m / median(*base), row.baseline);
  std::string const rate =
      row.per_second > 0 ? fmt::format("{:.3g} {}/s", row.per_second / m, row.unit) : "";
  fmt::print("{:<44} {:>10} {:>5.1f}%  {:<18} {:<34} {}\n", row.name, pretty_time(m),
             100 * spread(*times), rate, ratio, row.bound);
}

}  // namespace

void run_micro(std::vector<micro_row> const& rows, int repetitions, double min_time,
               std::string const& filter) {
  std::vector<std::string> words = {"rubato-bench micro", "--benchmark_enable_random_interleaving=true",
                                    fmt::format("--benchmark_repetitions={}", repetitions),
                                    fmt::format("--benchmark_min_time={}", min_time),
                                    "--benchmark_filter=" + filter};
  std::vector<char*> argv;
  for (auto& w : words) argv.push_back(w.data());
  int argc = static_cast<int>(argv.size());
  benchmark::Initialize(&argc, argv.data());
  collector measured;
  std::size_t const ran = benchmark::RunSpecifiedBenchmarks(&measured);
  benchmark::Shutdown();
  if (ran == 0 && !names_server_memory(filter))
    throw option_error("--filter: no benchmark's name matches \"" + filter + '"');
  fmt::print("medians of {} repetitions, alternating at random; beside each the spread that half of "
             "them keep\n\n",
             repetitions);
  fmt::print("{:<44} {:>10} {:>6}  {:<18} {:<34} {}\n", "what", "median", "+-", "rate", "ratio",
             "aim");
  for (auto const& row : rows) print_row(row, measured);
}

}  // namespace rubato::bench
