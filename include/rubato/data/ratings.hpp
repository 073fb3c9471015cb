// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace rubato::data {

/// What a user thinks of an item.
struct rating {
  std::uint32_t user = 0;  ///< who rates: a number from 0
  std::uint32_t item = 0;  ///< what is rated: a number from 0
  float value = 0;  ///< the rating; finite

  friend bool operator==(rating const&, rating const&) = default;
};

struct held_out_ratings;

/// Ratings of items by users: a sparse matrix, found by its rows and by its columns, both in ascending order.
/// Immutable, used concurrently; copies share their memory, 16 bytes a rating.
class ratings {
 public:
  /// An item that a user has rated, or a user that has rated an item.
  struct entry {
    std::uint32_t other;  ///< the number of the item that the user has rated, or the other way round
    float value;  ///< the rating
  };

  /// @param all in any order; what is rated nowhere stays without ratings
  /// @throws data_error naming a rating that is of a user or item that there is not, not finite, or there twice
  /// Cost: O(ratings log ratings)
  ratings(std::size_t users, std::size_t items, std::vector<rating> all);

  /// Number of users.
  [[nodiscard]] std::size_t users() const noexcept { return state_->by_user.first.size() - 1; }
  /// Number of items.
  [[nodiscard]] std::size_t items() const noexcept { return state_->by_item.first.size() - 1; }
  [[nodiscard]] std::size_t size() const noexcept { return state_->by_user.entries.size(); }

  /// @pre `u` is below `users()`
  [[nodiscard]] std::span<entry const> of_user(std::size_t u) const noexcept { return state_->by_user.of(u); }
  /// @pre `i` is below `items()`
  [[nodiscard]] std::span<entry const> of_item(std::size_t i) const noexcept { return state_->by_item.of(i); }

  /// Cuts at random into disjoint parts of the same users and items; round(test_share × size()) ratings are held
  /// out. What is drawn depends on the seed and on which ratings there are. Cost: O(size log size)
  /// @throws option_error when `test_share` is not in [0, 1]
  [[nodiscard]] held_out_ratings split(double test_share, std::uint64_t seed) const;

 private:
  struct lines {
    std::vector<std::size_t> first;  ///< of a line's entries; one more than there are lines
    std::vector<entry> entries;

    [[nodiscard]] std::span<entry const> of(std::size_t line) const noexcept {
      return std::span(entries).subspan(first[line], first[line + 1] - first[line]);
    }
  };
  struct state {
    lines by_user;
    lines by_item;
  };

  std::shared_ptr<state const> state_;
};

/// What `ratings::split` returns.
struct held_out_ratings {
  ratings train;  ///< the ratings to train on
  ratings test;  ///< the ratings held out, to judge by
};

/// What synthetic ratings should look like.
struct ratings_options {
  std::size_t users = 200;  ///< how many rate; at least 1
  std::size_t items = 100;  ///< how many are rated; at least 1
  std::size_t factors = 4;    ///< the rank of the matrix below the noise; from 1 to 2^32 - 1
  std::size_t per_user = 20;  ///< items that each user has rated, at most all
  double noise = 0.1;         ///< standard deviation of what is added to each; those below it have 1
  std::uint64_t seed = 1;  ///< of all draws
};

/// A sample of a matrix of low rank, with noise: what matrix factorization assumes. Each user has rated items
/// drawn at random. The result depends on the options only, bit for bit, on every compiler (built without
/// floating-point contraction).
/// @throws option_error on an option out of range. Cost: O(users × per_user × factors)
[[nodiscard]] ratings make_synthetic_ratings(ratings_options const& options = {});

}  // namespace rubato::data
