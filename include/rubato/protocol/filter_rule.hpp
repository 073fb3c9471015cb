// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "rubato/core/check_options.hpp"
#include "rubato/core/element.hpp"
#include "rubato/protocol/commit_filter.hpp"

namespace rubato {

/// Elements of a commit side by side.
template <parameter T>
struct filter_run {
  std::size_t size;  ///< how many
  T const* w;        ///< the parameters, as the worker has read them
  T* u;              ///< the accumulated update; becomes what is carried
  T* sent;           ///< becomes what is sent
  T* const* slots;   ///< of each slot its values
};

namespace detail {

template <filters_elements P, parameter T>
void send_run(P const& policy, filter_point const& at, filter_run<T> const& run) noexcept {
  // Small policies by value: what is written to the run is known not to change them.
  std::conditional_t<std::is_trivially_copyable_v<P>, P const, P const&> p = policy;
  [&]<std::size_t... Slot>(std::index_sequence<Slot...>) {
    std::array<T*, P::slots + 1> slot{run.slots[Slot]...};
    for (std::size_t i = 0; i < run.size; ++i) run.sent[i] = p.send(at, run.w[i], run.u[i], slot[Slot][i]...);
  }(std::make_index_sequence<P::slots>());
}

template <filters_elements P, parameter T>
void measure_run(P const& p, filter_point const& at, filter_run<T> const& run, std::span<double> sums) noexcept {
  [&]<std::size_t... Slot>(std::index_sequence<Slot...>) {
    for (std::size_t i = 0; i < run.size; ++i) {
      auto const of = p.measure(at, run.w[i], std::as_const(run.u[i]), std::as_const(run.slots[Slot][i])...);
      for (std::size_t s = 0; s < of.size(); ++s) sums[s] += of[s];
    }
  }(std::make_index_sequence<P::slots>());
}

}  // namespace detail

/// A commit filter as a value, asked for a run of elements at a time. A copy is a worker's own: it decides by itself.
class filter_rule {
 public:
  /// Any filter converts. @throws what its `check()` does, if it has one
  template <class P>
    requires(!std::same_as<P, filter_rule> && commit_filter<P>)
  filter_rule(P policy)  // NOLINT: policies are meant to convert
      : by_row_(detail::filters_rows<P>),
        by_element_(detail::filters_elements<P>),
        sums_(detail::declared_sums<P>()),
        differences_(detail::sends_differences<P>()),
        fingerprint_(detail::fingerprint_of(policy)),
        type_(&typeid(P)) {
    if constexpr (detail::filters_elements<P>) slots_ = P::slots;
    answers_ = std::make_unique<model<P>>(detail::checked(std::move(policy)));
  }
  filter_rule(filter_rule const& other)
      : by_row_(other.by_row_), by_element_(other.by_element_), slots_(other.slots_), sums_(other.sums_),
        differences_(other.differences_), fingerprint_(other.fingerprint_), type_(other.type_),
        answers_(other.answers_->clone()) {}
  filter_rule(filter_rule&&) noexcept = default;
  filter_rule& operator=(filter_rule const& other) { return *this = filter_rule(other); }
  filter_rule& operator=(filter_rule&&) noexcept = default;
  ~filter_rule() = default;

  [[nodiscard]] bool by_row() const noexcept { return by_row_; }
  [[nodiscard]] bool by_element() const noexcept { return by_element_; }
  [[nodiscard]] std::size_t slots() const noexcept { return slots_; }
  [[nodiscard]] std::size_t sums() const noexcept { return sums_; }
  /// Whether it sends by how much updates have changed, so that servers must keep what they were sent.
  [[nodiscard]] bool differences() const noexcept { return differences_; }
  /// What the policy says of itself, see `fingerprinted_policy`.
  [[nodiscard]] std::optional<std::uint64_t> fingerprint() const noexcept { return fingerprint_; }
  /// The policy's type, for messages.
  [[nodiscard]] std::type_info const& type() const noexcept { return *type_; }

  /// Of each row 1 or 0 into `out`. @pre `by_row()`
  void takes(filter_point const& at, std::span<key const> rows, std::uint8_t* out) const noexcept {
    answers_->takes(at, rows, out);
  }
  /// @pre `by_element()`
  template <std::floating_point T>
  void send(filter_point const& at, filter_run<T> const& run) const noexcept {
    answers_->send(at, run);
  }
  /// Adds what the run's elements come to; `sums()` numbers.
  template <std::floating_point T>
  void measure(filter_point const& at, filter_run<T> const& run, std::span<double> sums) const noexcept {
    answers_->measure(at, run, sums);
  }
  void decide(filter_point const& at, std::span<double const> sums) noexcept { answers_->decide(at, sums); }

 private:
  struct answers {
    virtual ~answers() = default;
    virtual std::unique_ptr<answers> clone() const = 0;
    virtual void takes(filter_point const&, std::span<key const>, std::uint8_t*) const noexcept {}
    virtual void send(filter_point const&, filter_run<float> const&) const noexcept {}
    virtual void send(filter_point const&, filter_run<double> const&) const noexcept {}
    virtual void measure(filter_point const&, filter_run<float> const&, std::span<double>) const noexcept {}
    virtual void measure(filter_point const&, filter_run<double> const&, std::span<double>) const noexcept {}
    virtual void decide(filter_point const&, std::span<double const>) noexcept {}
  };
  template <class P>
  struct model final : answers {
    explicit model(P p) : policy(std::move(p)) {}
    std::unique_ptr<answers> clone() const override { return std::make_unique<model>(policy); }
    void takes([[maybe_unused]] filter_point const& at, [[maybe_unused]] std::span<key const> rows,
               [[maybe_unused]] std::uint8_t* out) const noexcept override {
      if constexpr (detail::filters_rows<P>)
        for (std::size_t i = 0; i < rows.size(); ++i) out[i] = policy.takes(at, rows[i]) ? 1 : 0;
    }
    void send(filter_point const& at, filter_run<float> const& run) const noexcept override { send_of(at, run); }
    void send(filter_point const& at, filter_run<double> const& run) const noexcept override { send_of(at, run); }
    void measure(filter_point const& at, filter_run<float> const& run, std::span<double> sums) const noexcept override {
      measure_of(at, run, sums);
    }
    void measure(filter_point const& at, filter_run<double> const& run,
                 std::span<double> sums) const noexcept override {
      measure_of(at, run, sums);
    }
    void decide([[maybe_unused]] filter_point const& at,
                [[maybe_unused]] std::span<double const> sums) noexcept override {
      if constexpr (detail::declared_sums<P>() != 0) {
        std::array<double, detail::declared_sums<P>()> all;
        std::ranges::copy(sums, all.begin());
        policy.decide(at, all);
      }
    }

    template <class Run>
    void send_of([[maybe_unused]] filter_point const& at, [[maybe_unused]] Run const& run) const noexcept {
      if constexpr (detail::filters_elements<P>) detail::send_run(policy, at, run);
    }
    template <class Run>
    void measure_of([[maybe_unused]] filter_point const& at, [[maybe_unused]] Run const& run,
                    [[maybe_unused]] std::span<double> sums) const noexcept {
      if constexpr (detail::declared_sums<P>() != 0) detail::measure_run(policy, at, run, sums);
    }
    P policy;
  };

  bool by_row_;
  bool by_element_;
  std::size_t slots_ = 0;
  std::size_t sums_;
  bool differences_;
  std::optional<std::uint64_t> fingerprint_;
  std::type_info const* type_;
  std::unique_ptr<answers> answers_;
};

}  // namespace rubato
