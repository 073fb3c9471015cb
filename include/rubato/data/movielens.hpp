// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rubato/data/ratings.hpp"

namespace rubato::data {

/// Ratings, and what their users and items are called where they come from.
struct identified_ratings {
  ratings all;  ///< the ratings, of users and items that are numbered from 0
  std::vector<std::uint64_t> user_ids;  ///< by user, ascending: a binary search finds the user of an id
  std::vector<std::uint64_t> item_ids;  ///< by item, ascending
};

/// Reads ratings as MovieLens writes them, a user, an item, a rating and the time of it on each line:
///
///     u.data       user<tab>item<tab>rating<tab>timestamp
///     ratings.dat  user::item::rating::timestamp
///     ratings.csv  userId,movieId,rating,timestamp   below a line that says just this, which may be missing
///
/// Which of them it is, and whether it is packed by gzip, is told from the content. Ids are any numbers from 1 to
/// 2^64 − 1, with gaps or without; users and items are numbered in ascending order of their ids, so that memory goes
/// by how many there are. Times are checked, and not kept. Lines may end in CRLF, and empty ones may follow
/// the last.
///
/// @throws data_error `file:line: what, expected …` for a field that is missing, one too many or no number, a rating
///   that is not finite, an id of 0 or too large, and an item that a user has rated in two lines; `file: …` for a
///   file without ratings, a broken gzip stream, a file that is packed otherwise (bzip2, xz), or (with errc::io)
///   one that cannot be read
/// Cost: O(ratings log ratings), and memory for each rating once more than the result.
[[nodiscard]] identified_ratings read_ratings(std::string const& path);

}  // namespace rubato::data
