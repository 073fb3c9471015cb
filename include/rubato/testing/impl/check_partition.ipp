// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/testing/check_partition.hpp"

namespace rubato::testing {

std::vector<table_shape> usual_shapes() {
  std::vector<table_shape> all;
  for (std::uint64_t const rows : {0U, 1U, 2U, 7U, 1000U, 65'537U})
    for (std::uint32_t const servers : {1U, 2U, 3U, 7U, 64U}) all.push_back({rows, servers});
  return all;
}

namespace detail {

namespace {

/// What a partition answers for one shape, and which keys it is asked for.
class partition_of_shape {
 public:
  partition_of_shape(findings& found, partition_rule const& rule, partition_rule const& copy, table_shape shape)
      : found_(found), rule_(rule), copy_(copy), shape_(shape) {}

  /// Returns whether the partition has such tables.
  bool check() {
    std::optional<std::uint32_t> const first = server_of(rule_, 0);
    for (std::uint64_t i = 0; i < 300; ++i) {
      std::uint64_t const k = nth_key(i);
      std::optional<std::uint32_t> const s = server_of(rule_, k);
      found_.expect(s.has_value() == first.has_value(), "key ", first ? k : 0, where(), " is refused, and key ",
                    first ? 0 : k, " is not: what cannot be done with a shape is to be said whatever the key");
      if (s) check_key(k, *s);
    }
    return first.has_value();
  }

 private:
  /// Nothing where it refuses the shape.
  [[nodiscard]] std::optional<std::uint32_t> server_of(partition_rule const& rule, std::uint64_t k) const {
    std::uint32_t server = 0;
    try {
      rule.servers_of({&k, 1}, shape_, &server);
    } catch (option_error const&) {
      return std::nullopt;
    }
    return server;
  }
  [[nodiscard]] std::uint64_t last() const noexcept { return shape_.rows == 0 ? ~std::uint64_t{0} : shape_.rows - 1; }
  /// The first ones, and others all over the table.
  [[nodiscard]] std::uint64_t nth_key(std::uint64_t i) const noexcept {
    return i < 150 ? std::min(i, last()) : last() - std::min(last(), (i - 150) * (last() / 150));
  }
  [[nodiscard]] std::string where() const {
    std::string const size = shape_.rows == 0 ? "a table without bound" : text(shape_.rows, " rows");
    return text(" of ", size, " on ", shape_.servers, " servers");
  }

  void check_key(std::uint64_t k, std::uint32_t server) {
    auto const what = text("key ", k, where(), " is given to server ", server);
    found_.expect(server < shape_.servers, what, ", expected one below ", shape_.servers);
    found_.expect(server_of(rule_, k) == server && server_of(copy_, k) == server, what,
                  " and then to another one: the answer must depend on nothing else");
    if (shape_.rows == 0) return;
    if (auto const end = rule_.run_end(key{k}, shape_)) check_run(k, server, *end, what);
  }
  void check_run(std::uint64_t k, std::uint32_t server, std::uint64_t end, std::string const& what) {
    if (!found_.expect(end > k, what, ", and its run ends at ", end, ", expected above the key")) return;
    std::uint64_t const until = std::min(end, shape_.rows);
    for (std::uint64_t const other : {std::min(k + 1, until - 1), k + (until - k) / 2, until - 1})
      found_.expect(server_of(rule_, other) == server, what, ", and its run ends at ", end, ", but key ", other,
                    " is not on that server");
  }

  findings& found_;
  partition_rule const& rule_;
  partition_rule const& copy_;
  table_shape shape_;
};

}  // namespace

void check_partition(findings& found, partition_rule const& rule, partition_rule const& copy,
                     std::vector<table_shape> const& shapes) {
  bool has_any = false;
  for (table_shape const& shape : shapes)
    if (partition_of_shape(found, rule, copy, shape).check()) has_any = true;
  found.expect(has_any, "it refuses tables of each of ", shapes.size(),
               " shapes: give it such as it is for, see check_partition");
  found.expect(rule.digest() == copy.digest(), "a copy has another digest");
}

}  // namespace detail

}  // namespace rubato::testing
