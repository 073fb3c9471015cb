// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/core/short_list.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

using rubato::short_list;

namespace {

using counted = std::shared_ptr<int>;
using list = short_list<counted, 2>;

std::vector<int> values_of(list const& l) {
  std::vector<int> all;
  for (std::size_t i = 0; i < l.size(); ++i) all.push_back(l[i] ? *l[i] : -1);
  return all;
}

list list_of(std::vector<int> const& values) {
  list l;
  for (int const v : values) l.push_back(std::make_shared<int>(v));
  return l;
}

using values = std::vector<int>;

}  // namespace

TEST_CASE("short_list: holds few and many, in their order") {
  list l;
  CHECK(l.empty());
  CHECK(l.size() == 0);
  values expected;
  for (int i = 0; i < 5; ++i) {
    l.push_back(std::make_shared<int>(i));
    expected.push_back(i);
    CHECK_FALSE(l.empty());
    CHECK(values_of(l) == expected);
  }
  *l[1] = 11;
  *l[4] = 44;
  CHECK(values_of(l) == values{0, 11, 2, 3, 44});
  short_list<int, 2> const made{7, 8, 9};
  CHECK(made.size() == 3);
  CHECK(made[0] == 7);
  CHECK(made[2] == 9);
}

TEST_CASE("short_list: copies are distinct lists, and a moved one is empty") {
  for (std::size_t const n : {0U, 1U, 2U, 3U, 5U}) {
    INFO(n);
    values const some(n, 6);
    list a = list_of(some);
    list b = a;
    CHECK(values_of(b) == some);
    b.push_back(std::make_shared<int>(1));
    CHECK(a.size() == n);
    list c = std::move(a);
    CHECK(values_of(c) == some);
    CHECK(a.empty());  // NOLINT: it says so
    a.push_back(std::make_shared<int>(3));
    CHECK(values_of(a) == values{3});
    a = std::move(c);
    CHECK(values_of(a) == some);
    CHECK(c.empty());  // NOLINT: it says so
    c = a;
    CHECK(values_of(c) == some);
    list other = list_of({4, 5, 6, 7});
    other.swap(c);
    CHECK(values_of(other) == some);
    CHECK(values_of(c) == values{4, 5, 6, 7});
  }
}

TEST_CASE("short_list: what is taken away is given up, and comes back as nothing") {
  list l = list_of({0, 1, 2, 3});
  std::vector<std::weak_ptr<int>> const seen{l[0], l[1], l[2], l[3]};
  auto const alive = [&] {
    values out;
    for (auto const& w : seen) out.push_back(w.expired() ? 0 : 1);
    return out;
  };
  l.resize(3);
  CHECK(alive() == values{1, 1, 1, 0});
  l.resize(1);
  CHECK(alive() == values{1, 0, 0, 0});
  l.resize(4);
  CHECK(values_of(l) == values{0, -1, -1, -1});
  l.clear();
  CHECK(l.empty());
  CHECK(alive() == values{0, 0, 0, 0});
  l.resize(3);
  CHECK(values_of(l) == values{-1, -1, -1});
}
