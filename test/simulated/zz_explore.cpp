#include "simulated/dyn_sgd_family.hpp"
#include <cstdio>
#include <map>
#include <tuple>
using namespace rubato;
namespace {
template <class V>
void explore(char const* name) {
  struct acc { double full = 0; std::uint64_t seed = 0; std::size_t live=0; int n=0, over=0; };
  std::map<std::tuple<int,int,int,int>, acc> worst;
  for (std::uint64_t seed = 1; seed <= test::seed_count(3000); ++seed)
    for (auto kept : {versions::exact, versions::capped}) {
      staleness const s = test::random_staleness(seed);
      if (s.is_infinite()) continue;
      auto plan = test::random_commit_plan(seed);
      int joins = !plan.schedule.scenario.joins.empty();
      auto const run = test::run_commits<true>(
        [&](test::commit_book& book) {
          return basic_dyn_sgd<V, test::told, every>{.staleness = s, .fold = {.inner = {kept}, .book = &book}, .tempo = {.steps = std::int64_t{1} << 62}};
        }, plan,
        {.bound = s, .exact = kept == versions::exact, .eager = !V::holds_back, .same_cut = synchronized_visibility<V>, .bounded = true});
      acc& a = worst[{kept == versions::capped, plan.steady, plan.schedule.servers > 1, joins}];
      ++a.n; if (run.fullness > 1) ++a.over;
      if (run.fullness > a.full) a.full = run.fullness, a.seed = seed, a.live = run.live_peak;
      for (auto const& v : run.violations) if (v.find("DYN-2") == std::string::npos) std::printf("%s seed %lu %s: %s\n", name, seed, kept==versions::capped?"capped":"exact", v.c_str());
    }
  for (auto const& [k, a] : worst)
    std::printf("%-10s %s %s servers %s joins %d: n %d over %d worst %.2f (seed %lu, live %zu)\n", name, std::get<0>(k) ? "capped" : "exact ", std::get<1>(k) ? "steady" : "any   ", std::get<2>(k) ? ">1" : "1 ", std::get<3>(k), a.n, a.over, a.full, a.seed, a.live);
}
}
TEST_CASE("explore") { explore<eager>("eager"); explore<strict>("strict"); explore<stable_cut>("stable"); }
