// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include <rubato/core/random.hpp>
#include <rubato/storage/sparse_snapshot.hpp>
#include <rubato/testing/actor.hpp>
#include <rubato/testing/observed_run.hpp>
#include <rubato/testing/observer.hpp>

namespace rubato::test {

/// How one life of a worker reads two counting tables where its copies are renewed: as a whole and by key, some lives in
/// one way only; now and then asked for ahead of time; and some lives at a staleness of their own. The others never see
/// a row of the dense table go back, however they read it. (Rows that one read wants fresher than the next are newer
/// than a copy of all, and so are rows of a sparse table, which are not read from such a copy.)
class reads_of_all_kinds {
 public:
  reads_of_all_kinds(testing::observer& o, std::uint32_t column, std::uint32_t columns, staleness bound,
                     random_stream& draws)
      : observer_(o), column_(column), columns_(columns), bound_(bound), at_bound_(draws.chance(0.6)) {
    constexpr std::array chances{0.0, 0.2, 0.5, 1.0};
    whole_ = chances[static_cast<std::size_t>(draws.below(chances.size()))];
    seen_.resize(rows * columns);
  }

  /// @param counts whether the observer is to judge what is read
  template <class Worker>
  void read(Worker& w, random_stream& draws, bool counts) {
    staleness s = bound_;
    if (!at_bound_ && draws.chance(0.4)) s = std::min(s, staleness(static_cast<std::int64_t>(draws.below(4))));
    if (draws.chance(0.15)) ask_ahead(w, draws);
    std::size_t const table = draws.chance(0.5) ? 0 : 1;
    if (draws.chance(whole_)) return read_whole(w, table, s, counts);
    std::vector<std::uint64_t> some;
    for (std::uint64_t row = 0; row < rows; ++row)
      if (draws.chance(0.6)) some.push_back(row);
    std::vector<std::int64_t> out(some.size() * columns_);
    observer_.asking(column_, s);
    if (table == 0) w.pull(some, out, s);
    else w[rubato::table<1>].pull(keys_of(some), out, s);
    look(s, table, testing::observer::kind::keyed, some, out, counts);
  }

 private:
  static constexpr std::size_t rows = testing::detail::table_rows;

  [[nodiscard]] static std::vector<std::uint64_t> all_rows() {
    std::vector<std::uint64_t> all(rows);
    std::iota(all.begin(), all.end(), std::uint64_t{0});
    return all;
  }
  [[nodiscard]] static std::vector<std::uint64_t> keys_of(std::vector<std::uint64_t> keys) {
    for (auto& k : keys) k = testing::detail::sparse_key(k);
    return keys;
  }

  template <class Worker>
  void ask_ahead(Worker& w, random_stream& draws) {
    observer_.asking(column_, bound_);
    if (draws.chance(0.5)) w.prefetch();
    else w[rubato::table<1>].prefetch(keys_of(all_rows()));
  }

  template <class Worker>
  void read_whole(Worker& w, std::size_t table, staleness s, bool counts) {
    std::vector<std::int64_t> out(rows * columns_);
    observer_.asking(column_, table == 0 ? s : bound_);
    if (table == 0) {
      w.pull(out, s);
    } else {
      sparse_snapshot<std::int64_t> touched;
      w[rubato::table<1>].pull(touched);
      out = testing::detail::spread(touched, columns_);
      s = bound_;
    }
    look(s, table, testing::observer::kind::whole, all_rows(), out, counts);
  }

  void look(staleness s, std::size_t table, testing::observer::kind how, std::vector<std::uint64_t> const& of,
            std::vector<std::int64_t> const& now, bool counts) {
    if (!counts) return;
    observer_.read(column_, s, table, how, of, now);
    if (!at_bound_ || table != 0) return;
    for (std::size_t i = 0; i < of.size(); ++i)
      for (std::size_t m = 0; m < columns_; ++m) {
        std::int64_t& before = seen_[static_cast<std::size_t>(of[i]) * columns_ + m];
        std::int64_t const here = now[i * columns_ + m];
        if (here < before)
          observer_.breach("ESSP: life ", column_, " reads ", here, " of life ", m, " in row ", of[i], ", but read ",
                           before, " before, in one way or another");
        before = std::max(before, here);
      }
  }

  testing::observer& observer_;
  std::uint32_t column_;
  std::size_t columns_;
  staleness bound_;
  bool at_bound_;
  double whole_ = 0;  ///< how often it reads all
  std::vector<std::int64_t> seen_;  ///< of the dense table
};

}  // namespace rubato::test
