// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "rubato/core/error.hpp"
#include "rubato/data/impl/gzip_file.hpp"
#include "rubato/data/impl/line_reader.hpp"
#include "rubato/data/impl/quoted.hpp"
#include "rubato/data/movielens.hpp"

namespace rubato::data {
namespace {

/// How the fields of a line are told apart.
struct rating_format {
  std::string_view separator;
  char const* line;  ///< what one looks like
};
constexpr std::array rating_formats{
    rating_format{"::", "user::item::rating::timestamp"},
    rating_format{"\t", "user<tab>item<tab>rating<tab>timestamp"},
    rating_format{",", "userId,movieId,rating,timestamp"},
};

/// Reads a file line by line, and numbers its users and items when it has seen all.
class ratings_parser {
 public:
  explicit ratings_parser(gzip_file& file) : name_(file.path()), lines_(file) {}

  identified_ratings parse() {
    read_lines();
    if (read_.empty()) fail_file("no ratings, expected lines of 'user item rating timestamp'");
    std::vector<std::uint64_t> users = ids_of(&line::user), items = ids_of(&line::item);
    std::vector<rating> all;
    all.reserve(read_.size());
    for (line const& l : read_) all.push_back({place_of(l.user, users), place_of(l.item, items), l.value});
    check_once(all);
    return {ratings(users.size(), items.size(), std::move(all)), std::move(users), std::move(items)};
  }

 private:
  struct line {
    std::uint64_t user;
    std::uint64_t item;
    float value;
  };

  void read_lines() {
    std::optional<std::string_view> text = lines_.next();
    if (!text) return;
    if (text->starts_with("\xef\xbb\xbf")) text->remove_prefix(3);  // a byte order mark
    format_ = format_of(*text);
    if (*text == rating_formats.back().line) text = lines_.next();
    first_line_ = lines_.number();
    for (; text; text = lines_.next()) {
      if (text->empty()) return expect_end();
      read_.push_back(read_line(*text));
    }
  }

  /// Behind an empty line.
  void expect_end() {
    std::size_t const empty = lines_.number();
    while (auto const text = lines_.next())
      if (!text->empty())
        throw data_error(fmt::format("{}:{}: user is missing, expected {}", name_, empty, format_.line));
  }

  [[nodiscard]] rating_format format_of(std::string_view text) const {
    for (rating_format const& f : rating_formats)
      if (text.find(f.separator) != std::string_view::npos) return f;
    fail("{} is no line of ratings, expected user, item, rating and timestamp, with tabs, '::' or commas between",
         quoted(text));
  }

  [[nodiscard]] line read_line(std::string_view text) const {
    std::string_view const user = take_field("user", text), item = take_field("item", text),
                           value = take_field("rating", text);
    if (text.empty()) fail("timestamp is missing, expected {}", format_.line);
    if (text.find(format_.separator) != std::string_view::npos)
      fail("{} goes on behind the timestamp, expected {}", quoted(text), format_.line);
    line const l{read_id("user", user), read_id("item", item), read_value(value)};
    (void)read_whole<std::int64_t>("timestamp", text);
    return l;
  }

  /// Cuts a field off the front of what is left of a line.
  std::string_view take_field(char const* what, std::string_view& text) const {
    std::size_t const size = std::min(text.find(format_.separator), text.size());
    std::string_view const field = text.substr(0, size);
    if (field.empty()) fail("{} is missing, expected {}", what, format_.line);
    text.remove_prefix(std::min(size + format_.separator.size(), text.size()));
    return field;
  }

  [[nodiscard]] std::uint64_t read_id(char const* what, std::string_view text) const {
    auto const id = read_whole<std::uint64_t>(what, text);
    if (id == 0) fail("{} 0, expected ids from 1 on", what);
    return id;
  }

  template <class Number>
  [[nodiscard]] Number read_whole(char const* what, std::string_view text) const {
    Number number = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc::invalid_argument || end != text.data() + text.size())
      fail("{} {} is not a whole number, expected {}", what, quoted(text), format_.line);
    if (error != std::errc{})
      fail("{} {} is too large, expected a number of 64 bits", what, quoted(text));
    return number;
  }

  [[nodiscard]] float read_value(std::string_view text) const {
    float value = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc::invalid_argument || end != text.data() + text.size())
      fail("rating {} is not a number, expected {}", quoted(text), format_.line);
    if (error == std::errc{} && !std::isfinite(value))
      fail("rating {} is not finite, expected a finite number", quoted(text));
    if (error != std::errc{})
      fail("rating {} is out of range, expected 0 or a magnitude between 1e-45 and 3.4e38", quoted(text));
    return value;
  }

  /// The different ids that occur, ascending.
  [[nodiscard]] std::vector<std::uint64_t> ids_of(std::uint64_t line::*side) const {
    std::vector<std::uint64_t> ids;
    ids.reserve(read_.size());
    for (line const& l : read_) ids.push_back(l.*side);
    std::ranges::sort(ids);
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    ids.shrink_to_fit();
    if (ids.size() > std::numeric_limits<std::uint32_t>::max())
      fail_file("more than 2^32 - 1 users or items, expected fewer");
    return ids;
  }

  [[nodiscard]] static std::uint32_t place_of(std::uint64_t id, std::vector<std::uint64_t> const& ids) {
    return static_cast<std::uint32_t>(std::ranges::lower_bound(ids, id) - ids.begin());
  }

  /// `all` is in the order of the lines, of which none was left out.
  void check_once(std::vector<rating> const& all) const {
    auto const cell = [](rating const& r) { return (std::uint64_t{r.user} << 32) | r.item; };
    std::vector<std::uint64_t> cells(all.size());
    std::ranges::transform(all, cells.begin(), cell);
    std::ranges::sort(cells);
    auto const twice = std::ranges::adjacent_find(cells);
    if (twice == cells.end()) return;
    auto const first = std::ranges::find(all, *twice, cell);
    auto const second = std::ranges::find(first + 1, all.end(), *twice, cell);
    auto const place = static_cast<std::size_t>(second - all.begin());
    line const& l = read_[place];
    throw data_error(fmt::format("{}:{}: user {} has rated item {} in line {}, expected one rating of it", name_,
                                 first_line_ + place, l.user, l.item,
                                 first_line_ + static_cast<std::size_t>(first - all.begin())));
  }

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> reason, Args&&... args) const {
    throw data_error(
        fmt::format("{}:{}: {}", name_, lines_.number(), fmt::format(reason, std::forward<Args>(args)...)));
  }
  [[noreturn]] void fail_file(char const* reason) const { throw data_error(name_ + ": " + reason); }

  std::string name_;
  line_reader lines_;
  rating_format format_{};
  std::size_t first_line_ = 1;  ///< with a rating
  std::vector<line> read_;
};

}  // namespace

identified_ratings read_ratings(std::string const& path) {
  gzip_file file(path);
  return ratings_parser(file).parse();
}

}  // namespace rubato::data
