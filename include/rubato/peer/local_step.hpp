// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <Eigen/Core>
#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rubato/core/error.hpp"

namespace rubato {

/// How a peer's own gradient changes its parameters.
///
/// | expression                           | meaning |
/// |--------------------------------------|---------|
/// | `s.template start<T>(size)`          | what it keeps for `size` parameters of type T, one per peer |
/// | `state.apply(first, x, gradient, to)`| adds the step to `to`; all three spans have one size and begin at parameter number `first` |
///
/// `x` are the parameters that the gradient was computed at. Blocks of one step come in any size, each
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

template <class T>
[[nodiscard]] auto as_array(std::span<T> s) {
  using array = Eigen::Array<std::remove_const_t<T>, Eigen::Dynamic, 1>;
  using seen = std::conditional_t<std::is_const_v<T>, array const, array>;
  return Eigen::Map<seen>(s.data(), static_cast<Eigen::Index>(s.size()));
}

/// What a step keeps for one peer.
template <class Step, class T>
using step_state = decltype(std::declval<Step const&>().template start<T>(std::size_t{}));
}  // namespace detail

/// Stochastic gradient descent with momentum and weight decay of the peer's own:
/// `v ← momentum·v + (gradient + decay·x)`, `x ← x − rate·v`. Neither v is ever sent. Source: 002 §7.2.
struct sgd {
  double rate = 0.1;
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
      auto const g = detail::as_array(gradient);
      auto const at = detail::as_array(x);
      auto out = detail::as_array(to);
      if (velocity_.empty()) {
        if (decay_ == 0) out -= rate_ * g;
        else out -= rate_ * (g + decay_ * at);
        return;
      }
      auto v = detail::as_array(std::span(velocity_).subspan(first, to.size()));
      if (decay_ == 0) v = momentum_ * v + g;
      else v = momentum_ * v + (g + decay_ * at);
      out -= rate_ * v;
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
      detail::as_array(to) += detail::as_array(step);
    }
  };
  template <std::floating_point T>
  [[nodiscard]] static state<T> start(std::size_t) noexcept {
    return {};
  }
};
static_assert(local_step<plain_step>);

}  // namespace rubato
