// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace rubato::algorithm::detail {

/// The x that makes Σ (y·x − v)² + λ |x|² least, for pairs of y and v that are added one by one.
/// Plain memory rather than matrices: those of a program may be aligned otherwise than the library's.
class normal_equations {
 public:
  /// @param k numbers in x and each y @param regulariser λ, above 0
  normal_equations(std::size_t k, double regulariser);

  /// @pre y has k numbers. Cost: k²/2 multiplications
  void add(std::span<double const> y, double v);
  /// x, of k numbers; such as are not finite where the sums are not. Cost: k³/6 multiplications
  [[nodiscard]] std::vector<double> solution() const;

 private:
  std::size_t k_;
  std::vector<double> a_;  // λ I + Σ y yᵀ: k columns, of which only the lower half is meant
  std::vector<double> b_;  // Σ v y
};

}  // namespace rubato::algorithm::detail
