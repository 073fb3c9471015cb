// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/core/slab.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>

#include <rubato/core/random.hpp>

using rubato::detail::slab;

TEST_CASE("slab: gives back what was put in, and uses places again") {
  slab<std::shared_ptr<int>> s;
  auto const value = std::make_shared<int>(7);
  std::uint32_t const first = s.put(std::shared_ptr(value));
  std::uint32_t const second = s.put(std::make_shared<int>(8));
  CHECK(first != second);
  CHECK(*s.take(first) == 7);
  CHECK(value.use_count() == 1);  // nothing stays behind
  CHECK(s.put(std::shared_ptr(value)) == first);
  CHECK(*s.take(second) == 8);
}

TEST_CASE("slab: agrees with a map over random puts and takes, in as few places as needed") {
  slab<int> s;
  std::map<std::uint32_t, int> reference;
  rubato::random_stream random(2);
  std::size_t most = 0;
  for (int i = 0; i < 3000; ++i) {
    if (reference.empty() || random.below(2) == 0) {
      std::uint32_t const at = s.put(int{i});
      REQUIRE(reference.emplace(at, i).second);
      most = std::max(most, reference.size());
      REQUIRE(at < most);
    } else {
      auto const some = std::next(reference.begin(), static_cast<std::ptrdiff_t>(
                                                         random.below(reference.size())));
      REQUIRE(s.take(some->first) == some->second);
      reference.erase(some);
    }
  }
}
