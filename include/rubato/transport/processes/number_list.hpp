// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace rubato::detail {

/// "workers 0, 3 and 5", of a number of them that may be too large to be told one by one.
class number_list {
 public:
  explicit number_list(std::size_t count) : count_(count) {}
  [[nodiscard]] bool has_all() const noexcept { return known_.size() == std::min(count_, shown); }
  void add(std::uint32_t n) {
    if (!has_all()) known_.push_back(n);
  }
  [[nodiscard]] std::string text(char const* role) const {
    std::string all = role + std::string(count_ == 1 ? " " : "s ");
    for (std::size_t i = 0; i < known_.size(); ++i)
      all += (i == 0 ? "" : i + 1 == count_ ? " and " : ", ") + std::to_string(known_[i]);
    return count_ <= shown ? all : all + " and " + std::to_string(count_ - shown) + " others";
  }

 private:
  static constexpr std::size_t shown = 8;
  std::size_t count_;
  std::vector<std::uint32_t> known_;
};

}  // namespace rubato::detail
