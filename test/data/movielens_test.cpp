// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/data/movielens.hpp>

#include <catch2/catch.hpp>

#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include <rubato/core/error.hpp>
#include <rubato/core/random.hpp>

#include "real_data.hpp"
#include "scratch_file.hpp"

namespace rb = rubato;
namespace rd = rubato::data;
using rubato_test::real_data;
using rubato_test::scratch_file;
using id_list = std::vector<std::uint64_t>;

namespace {

rd::identified_ratings read_movielens(std::string_view text) {
  scratch_file const file(text);
  return rd::read_ratings(file.path());
}

/// What is wrong with a file, without its name; `line: ` at the front where there is one.
std::string movielens_error(std::string_view text) {
  scratch_file const file(text);
  try {
    (void)rd::read_ratings(file.path());
  } catch (rb::data_error const& e) {
    std::string const sentence = e.what();
    REQUIRE(sentence.starts_with(file.path() + ":"));
    return sentence.substr(file.path().size() + 1);
  }
  return "no error";
}

std::vector<rd::rating> listed(rd::ratings const& all) {
  std::vector<rd::rating> out;
  for (std::uint32_t u = 0; u < all.users(); ++u)
    for (auto const& e : all.of_user(u)) out.push_back({u, e.other, e.value});
  return out;
}

/// The same ratings in each of the three formats; ids with gaps, not in ascending order.
std::string movielens_text(std::string_view separator, std::string_view end = "\n") {
  std::string text = separator == "," ? "userId,movieId,rating,timestamp" + std::string(end) : "";
  for (auto const& [user, item, value] : {std::tuple(7, "50", "3"), {2, "18446744073709551615", "4.5"}, {7, "9", "1"}})
    text += fmt::format("{1}{0}{2}{0}{3}{0}881250949{4}", separator, user, item, value, end);
  return text;
}

void check_movielens(rd::identified_ratings const& got) {
  CHECK(got.user_ids == id_list{2, 7});
  CHECK(got.item_ids == id_list{9, 50, std::numeric_limits<std::uint64_t>::max()});
  CHECK(got.all.users() == 2);
  CHECK(got.all.items() == 3);
  CHECK(listed(got.all) == std::vector<rd::rating>{{0, 2, 4.5F}, {1, 0, 1.0F}, {1, 1, 3.0F}});
}

}  // namespace

TEST_CASE("movielens: three formats, with either end of lines, numbered by ascending ids", "[data]") {
  std::string const separator = GENERATE("\t", "::", ",");
  std::string const end = GENERATE("\n", "\r\n");
  std::string const text = movielens_text(separator, end);
  INFO(text);
  check_movielens(read_movielens(text));
  check_movielens(read_movielens(std::string_view(text).substr(0, text.size() - end.size())));
  check_movielens(read_movielens("\xef\xbb\xbf" + text));
}

TEST_CASE("movielens: ratings.csv may lack its first line, which must be the one that MovieLens writes", "[data]") {
  std::string const text = movielens_text(",");
  check_movielens(read_movielens(text.substr(text.find('\n') + 1)));
  CHECK(movielens_error("user,movie,rating,time\n1,2,3,4\n") ==
        "1: user 'user' is not a whole number, expected userId,movieId,rating,timestamp");
}

TEST_CASE("movielens: gzip is told from the content, and one that is cut off is refused", "[data]") {
  std::string const text = movielens_text("::");
  scratch_file const file;
  gzFile const out = gzopen(file.path().c_str(), "wb");
  REQUIRE(gzwrite(out, text.data(), static_cast<unsigned>(text.size())) == static_cast<int>(text.size()));
  REQUIRE(gzclose(out) == Z_OK);
  check_movielens(rd::read_ratings(file.path()));
  std::filesystem::resize_file(file.path(), std::filesystem::file_size(file.path()) - 9);
  CHECK_THROWS_WITH(rd::read_ratings(file.path()), Catch::Contains("truncated gzip stream"));
}

TEST_CASE("movielens: lines are found across the borders of what is read at a time", "[data]") {
  std::string text;
  for (std::uint64_t user = 1; user <= 30'000; ++user) text += fmt::format("{}\t{}\t{}\t5\n", user, user % 7 + 1, user);
  REQUIRE(text.size() > 3 * (std::size_t{1} << 17));
  auto const got = read_movielens(text);
  REQUIRE(got.all.size() == 30'000);
  bool same = true;
  for (std::uint32_t u = 0; u < 30'000; ++u) {
    auto const of_user = got.all.of_user(u);
    same = same && of_user.size() == 1 && of_user[0].other == (u + 1) % 7 &&
           of_user[0].value == static_cast<float>(u + 1);
  }
  CHECK(same);
}

TEST_CASE("movielens: what cannot be a rating is refused with its line and what was expected", "[data]") {
  std::string const tabs = "user<tab>item<tab>rating<tab>timestamp";
  std::string const good = "1\t2\t3\t4\n";
  CHECK(movielens_error(good + "1\t3\t5\n") == "2: timestamp is missing, expected " + tabs);
  CHECK(movielens_error(good + "1\t3\n") == "2: rating is missing, expected " + tabs);
  CHECK(movielens_error(good + "1\n") == "2: item is missing, expected " + tabs);
  CHECK(movielens_error(good + "\n" + good) == "2: user is missing, expected " + tabs);
  CHECK(movielens_error("1::::3::4\n") == "1: item is missing, expected user::item::rating::timestamp");
  CHECK(movielens_error(good + "1\t3\t5\t6\t7\n") == "2: '6\\x097' goes on behind the timestamp, expected " + tabs);
  CHECK(movielens_error(good + "1\tx\t5\t6\n") == "2: item 'x' is not a whole number, expected " + tabs);
  CHECK(movielens_error(good + "-1\t3\t5\t6\n") == "2: user '-1' is not a whole number, expected " + tabs);
  CHECK(movielens_error(good + "1\t3\t5\t6.5\n") == "2: timestamp '6.5' is not a whole number, expected " + tabs);
  CHECK(movielens_error(good + "1\t3\tgood\t6\n") == "2: rating 'good' is not a number, expected " + tabs);
  CHECK(movielens_error(good + "1\t3\t5,0\t6\n") == "2: rating '5,0' is not a number, expected " + tabs);
  CHECK(movielens_error(good + "1\t3\tinf\t6\n") == "2: rating 'inf' is not finite, expected a finite number");
  CHECK(movielens_error(good + "1\t3\tnan\t6\n") == "2: rating 'nan' is not finite, expected a finite number");
  CHECK(movielens_error(good + "1\t3\t1e39\t6\n") ==
        "2: rating '1e39' is out of range, expected 0 or a magnitude between 1e-45 and 3.4e38");
  CHECK(movielens_error(good + "0\t3\t5\t6\n") == "2: user 0, expected ids from 1 on");
  CHECK(movielens_error(good + "1\t18446744073709551616\t5\t6\n") ==
        "2: item '18446744073709551616' is too large, expected a number of 64 bits");
  CHECK(movielens_error("userId,movieId,rating,timestamp\n9,2,3,4\n1,2,3,4\n9,2,5,4\n") ==
        "4: user 9 has rated item 2 in line 2, expected one rating of it");
}

TEST_CASE("movielens: empty lines may follow the last rating", "[data]") {
  for (char const* end : {"\n", "\r\n", "\n\n\r\n", ""}) {
    scratch_file const file("1\t2\t3\t4\n2\t2\t3\t4\n" + std::string(end));
    CHECK(rd::read_ratings(file.path()).all.size() == 2);
  }
  CHECK(movielens_error("1\t2\t3\t4\n\n\n1\t3\t3\t4\n") ==
        "2: user is missing, expected user<tab>item<tab>rating<tab>timestamp");
}

TEST_CASE("movielens: a file without ratings, or of something else, is refused", "[data]") {
  std::string const none = " no ratings, expected lines of 'user item rating timestamp'";
  CHECK(movielens_error("") == none);
  CHECK(movielens_error("userId,movieId,rating,timestamp\n") == none);
  CHECK(movielens_error("hello\n") == "1: 'hello' is no line of ratings, expected user, item, rating and timestamp, "
                                      "with tabs, '::' or commas between");
  CHECK(movielens_error("1\t2\t3\t4\n" + std::string(3000, '1')).starts_with("2: line '1111"));
  CHECK(movielens_error("1\t2\t3\t4\n" + std::string(1 << 20, '1') + "\n").ends_with("expected an end earlier"));
  try {
    (void)rd::read_ratings("/nonexistent/ratings.csv");
    FAIL("no error");
  } catch (rb::data_error const& e) {
    CHECK(e.code() == rb::errc::io);
  }
}

TEST_CASE("movielens: any bytes give ratings or an error", "[data]") {
  std::string const whole = movielens_text("\t") + movielens_text("::") + movielens_text(",");
  rb::random_stream random(5);
  for (int i = 0; i < 2000; ++i) {
    std::string text = whole.substr(random.below(whole.size()), random.below(80));
    for (std::uint64_t n = random.below(4); n > 0 && !text.empty(); --n)
      text[random.below(text.size())] = static_cast<char>(random.below(256));
    try {
      auto const got = read_movielens(text);
      CHECK(got.all.size() != 0);
      CHECK(std::ranges::is_sorted(got.user_ids));
    } catch (rb::data_error const&) {
    }
  }
}

TEST_CASE("movielens: ML-100K is read whole", "[data]") {
  auto const path = real_data("ml-100k/u.data");
  if (!path) return;
  auto const got = rd::read_ratings(*path);
  CHECK(got.all.users() == 943);
  CHECK(got.all.items() == 1682);
  CHECK(got.all.size() == 100'000);
  double total = 0;
  for (rd::rating const& r : listed(got.all)) total += static_cast<double>(r.value);
  CHECK(total == 352'986);
  auto const of_196 = got.all.of_user(195);  // its first line: 196 242 3
  CHECK(got.user_ids[195] == 196);
  CHECK(std::ranges::any_of(of_196, [&](auto const& e) { return got.item_ids[e.other] == 242 && e.value == 3; }));
}
