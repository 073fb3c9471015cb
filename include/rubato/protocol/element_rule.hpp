// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "rubato/core/element.hpp"
#include "rubato/protocol/element_merge.hpp"

namespace rubato {

/// Elements that a step is made for, side by side.
template <parameter T>
struct element_run {
  std::size_t size;   ///< how many
  T const* w;         ///< the parameters
  T* d;               ///< the summed update; becomes what is added to the parameters
  T* copy;            ///< the committing worker's, if the merge has any
  T* const* slots;    ///< of each slot its values
};

/// A merge by element as a value: asked for a run of elements at a time. Called concurrently.
class element_rule {
 public:
  /// What it says of itself, see `element_merge`.
  struct traits {
    std::type_info const* type;  ///< the policy's
    std::size_t slots;
    bool lazy;
    worker_copy copy;
  };

  explicit element_rule(traits const& t) noexcept : traits_(t) {}
  element_rule(element_rule const&) = delete;
  element_rule& operator=(element_rule const&) = delete;

  [[nodiscard]] std::type_info const& type() const noexcept { return *traits_.type; }
  [[nodiscard]] std::size_t slots() const noexcept { return traits_.slots; }
  [[nodiscard]] bool lazy() const noexcept { return traits_.lazy; }
  [[nodiscard]] worker_copy copy() const noexcept { return traits_.copy; }

  [[nodiscard]] virtual double initial(std::size_t slot) const noexcept = 0;
  virtual void step(fold_step const& at, element_run<float> const& run) const noexcept = 0;
  virtual void step(fold_step const& at, element_run<double> const& run) const noexcept = 0;

 protected:
  ~element_rule() = default;

 private:
  traits traits_;
};

namespace detail {

template <element_merge P, parameter T>
void step_run(P const& merge, fold_step const& at, element_run<T> const& run) noexcept {
  // Small policies by value: what is written to the run is known not to change them.
  std::conditional_t<std::is_trivially_copyable_v<P>, P const, P const&> p = merge;
  [&]<std::size_t... Slot>(std::index_sequence<Slot...>) {
    std::array<T*, P::slots + 1> slot{run.slots[Slot]...};
    T const* const w = run.w;
    T* const d = run.d;
    [[maybe_unused]] T* const copy = run.copy;
    for (std::size_t i = 0; i < run.size; ++i)
      if constexpr (declared_copy<P>() != worker_copy::none) d[i] = p.step(at, w[i], d[i], copy[i], slot[Slot][i]...);
      else d[i] = p.step(at, w[i], d[i], slot[Slot][i]...);
  }(std::make_index_sequence<P::slots>());
}

/// The rule of a policy that somebody else holds.
template <element_merge P>
class element_rule_of final : public element_rule {
 public:
  explicit element_rule_of(P const& policy) noexcept
      : element_rule({&typeid(P), P::slots, declared_lazy<P>(), declared_copy<P>()}), policy_(policy) {}

  [[nodiscard]] double initial(std::size_t slot) const noexcept override { return initial_of(policy_, slot); }
  void step(fold_step const& at, element_run<float> const& run) const noexcept override { step_run(policy_, at, run); }
  void step(fold_step const& at, element_run<double> const& run) const noexcept override { step_run(policy_, at, run); }

 private:
  P const& policy_;
};

}  // namespace detail

}  // namespace rubato
