// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rubato/core/check_options.hpp"
#include "rubato/core/error.hpp"
#include "rubato/peer/peer_node.hpp"

namespace rubato {

/// How a peer's own gradient changes its parameters.
///
/// | expression                           | meaning |
/// |--------------------------------------|---------|
/// | `s.template start<T>(size)`          | what it keeps for `size` parameters of type T, one per peer |
/// | `state.apply(first, x, gradient, to)`| adds the step to `to`; all three spans have one size and begin at parameter number `first` |
///
/// `x` are the parameters that the gradient was computed at. Blocks of one step come in any size and order, each
/// parameter once. Models: `sgd`, `plain_step`.
template <class S>
concept local_step = std::copyable<S> && requires(S const s, std::size_t n, std::span<float const> x,
                                                  std::span<float> to) {
  s.template start<float>(n).apply(n, x, x, to);
};

namespace detail {
/// A number for a message, as short as it can be told exactly.
[[nodiscard]] inline std::string text_of(double x) {
  std::array<char, 32> text{};
  auto const end = std::to_chars(text.data(), text.data() + text.size(), x);
  return {text.data(), end.ptr};
}

/// A local step of the user's, for parameters of type T.
template <std::floating_point T, local_step S>
class peer_step_of final : public peer_step {
 public:
  /// @throws what its `check()` does, if it has one
  explicit peer_step_of(S step) : step_(detail::checked(std::move(step))) {}
  void start(std::size_t size) override { state_.emplace(step_.template start<T>(size)); }
  void apply(std::size_t first, std::size_t count, std::byte const* x, std::byte const* gradient,
             std::byte* to) override {
    auto const seen = [count](std::byte const* p) { return std::span(reinterpret_cast<T const*>(p), count); };
    state_->apply(first, seen(x), seen(gradient), std::span(reinterpret_cast<T*>(to), count));
  }

 private:
  S step_;
  std::optional<decltype(std::declval<S const&>().template start<T>(std::size_t{}))> state_;
};
}  // namespace detail

/// Stochastic gradient descent with momentum and weight decay of the peer's own:
/// `v ← momentum·v + (gradient + decay·x)`, `x ← x − rate·v`. Neither v is ever sent. Source: 002 §7.2.
struct sgd {
  double rate = 0.1;  ///< the learning rate; finite, and above 0
  double momentum = 0;  ///< in [0, 1)
  double decay = 0;     ///< ≥ 0

  template <std::floating_point T>
  class state {
   public:
    /// @throws option_error that names the option: none may lose its meaning in T
    state(sgd const& options, std::size_t size)
        : rate_(static_cast<T>(options.rate)),
          momentum_(static_cast<T>(options.momentum)),
          decay_(static_cast<T>(options.decay)),
          velocity_(options.momentum == 0 ? 0 : size) {
      if (!(std::isfinite(rate_) && rate_ > 0))
        throw option_error("sgd: rate must be finite and above 0, but is " +
                           detail::text_of(options.rate));
      if (!(momentum_ >= 0 && momentum_ < 1))
        throw option_error("sgd: momentum must be 0 or more and less than 1, but is " +
                           detail::text_of(options.momentum));
      if (!(std::isfinite(decay_) && decay_ >= 0))
        throw option_error("sgd: decay must be finite and 0 or more, but is " +
                           detail::text_of(options.decay));
    }

    void apply(std::size_t first, std::span<T const> x, std::span<T const> gradient, std::span<T> to) {
      if (velocity_.empty()) {
        if (decay_ == 0)
          for (std::size_t i = 0; i < to.size(); ++i) to[i] -= rate_ * gradient[i];
        else
          for (std::size_t i = 0; i < to.size(); ++i) to[i] -= rate_ * (gradient[i] + decay_ * x[i]);
        return;
      }
      std::span<T> const v = std::span(velocity_).subspan(first, to.size());
      if (decay_ == 0)
        for (std::size_t i = 0; i < to.size(); ++i) v[i] = momentum_ * v[i] + gradient[i];
      else
        for (std::size_t i = 0; i < to.size(); ++i)
          v[i] = momentum_ * v[i] + (gradient[i] + decay_ * x[i]);
      for (std::size_t i = 0; i < to.size(); ++i) to[i] -= rate_ * v[i];
    }

   private:
    T rate_, momentum_, decay_;
    std::vector<T> velocity_;  ///< none without momentum
  };

  template <std::floating_point T>
  [[nodiscard]] state<T> start(std::size_t size) const {
    return {*this, size};
  }
};
static_assert(local_step<sgd>);

/// What the body hands over is the step itself, as it is added: for optimizers of the user's own.
struct plain_step {
  template <std::floating_point T>
  struct state {
    static void apply(std::size_t, std::span<T const>, std::span<T const> step, std::span<T> to) {
      for (std::size_t i = 0; i < to.size(); ++i) to[i] += step[i];
    }
  };
  template <std::floating_point T>
  [[nodiscard]] static state<T> start(std::size_t) noexcept {
    return {};
  }
};
static_assert(local_step<plain_step>);

}  // namespace rubato
