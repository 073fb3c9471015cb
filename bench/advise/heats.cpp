// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/advise/heats.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "bench/advise/runs.hpp"

namespace rubato::bench {
namespace {

/// An arm leaves when its median is so many times the leader's.
constexpr double lag_max = 1.25;

/// Best first. Who has run on more seeds comes first: the others left because they were slower. Of equals the first
/// in the list.
void sort(std::vector<finalist>& finalists) {
  std::ranges::sort(finalists, {}, [](finalist const& f) {
    return std::tuple(-static_cast<std::ptrdiff_t>(f.runs.size()), f.median_seconds(), f.what.candidate,
                      f.what.learning_rate);
  });
}

class heat_series {
 public:
  heat_series(std::span<candidate const> candidates, search_options const& options,
              std::vector<search_round>& rounds)
      : candidates_(candidates), options_(options), rounds_(rounds) {}

  std::vector<finalist> run(std::vector<finalist> in) {
    for (std::size_t seed = 1; seed < options_.seeds; ++seed) {
      sort(in);
      if (options_.progress) options_.progress(fmt::format("{} arms on seed {}", in.size(), seed + 1));
      heat(in, seed);
      sort(in);
      leave(in);
    }
    sort(in);
    out_.insert(out_.begin(), std::make_move_iterator(in.begin()), std::make_move_iterator(in.end()));
    sort(out_);
    return best_of_each();
  }

 private:
  void heat(std::vector<finalist>& in, std::size_t seed) {
    std::vector<run_order> const first = {{in.front().what, seed}};
    std::vector<run_result> results = run_all(candidates_, first, options_.lanes);
    double const deadline = options_.slack * time_to_target(results.front());
    std::vector<run_order> others;
    for (std::size_t i = 1; i < in.size(); ++i) others.push_back({in[i].what, seed, deadline});
    std::ranges::move(run_all(candidates_, others, options_.lanes), std::back_inserter(results));
    search_round round{
        .seed = seed, .deadline = deadline, .runs = results.size(), .cost = cost_of(results)};
    for (std::size_t i = 0; i < in.size(); ++i) {
      round.arrived += results[i].seconds_to_target ? 1 : 0;
      results[i].curve = {};
      in[i].runs.push_back(std::move(results[i]));
    }
    rounds_.push_back(std::move(round));
  }

  void leave(std::vector<finalist>& in) {
    double const limit = lag_max * in.front().median_seconds();
    std::size_t const leader = in.front().what.candidate;
    auto const second = std::ranges::find_if(
        in, [&](finalist const& f) { return f.what.candidate != leader; });
    std::vector<finalist> stay;
    for (auto it = in.begin(); it != in.end(); ++it) {
      bool const stays = it->median_seconds() <= limit || it == second;
      if (!stays) ++rounds_.back().late;
      (stays ? stay : out_).push_back(*it);
    }
    for (finalist const& f : in)
      if (!in_list(stay, f.what.candidate)) note_gone(candidates_[f.what.candidate].label);
    in = std::move(stay);
  }

  [[nodiscard]] static bool in_list(std::vector<finalist> const& list, std::size_t candidate) {
    return std::ranges::any_of(list, [&](finalist const& f) { return f.what.candidate == candidate; });
  }
  void note_gone(std::string const& label) {
    std::vector<std::string>& gone = rounds_.back().gone;
    if (std::ranges::find(gone, label) == gone.end()) gone.push_back(label);
  }
  [[nodiscard]] std::vector<finalist> best_of_each() {
    std::vector<finalist> best;
    for (finalist& f : out_)
      if (!in_list(best, f.what.candidate)) best.push_back(std::move(f));
    return best;
  }

  std::span<candidate const> candidates_;
  search_options const& options_;
  std::vector<search_round>& rounds_;
  std::vector<finalist> out_;
};

}  // namespace

std::vector<finalist> heats(std::span<candidate const> candidates, search_options const& options,
                            std::vector<finalist> arrived, std::vector<search_round>& rounds) {
  return heat_series(candidates, options, rounds).run(std::move(arrived));
}

}  // namespace rubato::bench
