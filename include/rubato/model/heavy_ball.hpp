// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <rubato/core/error.hpp>

namespace rubato::model {

/// Momentum of a worker's own: turns its plain steps u = -eta * gradient into v, where
///   v <- mu v + u,
/// so that w <- w + v is Polyak's heavy ball, W' = W - eta grad(W) + mu (W - W_before).
///
/// v is this worker's memory of its own steps. What other workers commit is not in it, and the
/// momentum that asynchrony brings along by itself comes on top.
///
/// Thread safety: distinct objects are independent; each worker has one. Cost: O(size) a step, and
/// `size` numbers of memory.
/// Source: "Distributed Machine Learning through Heterogeneous Edge Systems" (ADSP, AAAI 2020),
/// equation 1, applied at the worker.
///
/// \code
/// model::heavy_ball<float> momentum(0.9, w.size());
/// model.local_step(batch, eta, w, delta);
/// momentum.apply(delta);
/// worker.push(delta);
/// \endcode
template <std::floating_point Real = float>
class heavy_ball {
 public:
  /// @param mu in [0, 1); 0 leaves steps as they are
  /// @param size of the parameter vector
  /// @throws option_error for another mu
  heavy_ball(double mu, std::size_t size) : mu_(static_cast<Real>(mu)), velocity_(size) {
    if (mu >= 0 && mu < 1 && mu_ < 1) return;
    throw option_error("heavy_ball: mu is " + std::to_string(mu) +
                       ", expected 0 or more and less than 1");
  }

  /// Replaces the plain step by the one with momentum.
  /// @throws usage_error with errc::wrong_size when `step` has another size
  void apply(std::span<Real> step) {
    if (step.size() != velocity_.size()) {
      throw usage_error(errc::wrong_size, "heavy_ball: a step of " + std::to_string(step.size()) +
                                              " numbers, expected " +
                                              std::to_string(velocity_.size()));
    }
    for (std::size_t i = 0; i < step.size(); ++i) {
      velocity_[i] = mu_ * velocity_[i] + step[i];
      step[i] = velocity_[i];
    }
  }

  /// The last step that `apply` gave out; zeros before the first.
  [[nodiscard]] std::span<Real const> velocity() const noexcept { return velocity_; }

 private:
  Real mu_;
  std::vector<Real> velocity_;
};

}  // namespace rubato::model
