// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "rubato/core/check_options.hpp"
#include "rubato/protocol/admission_rule.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/protocol/diagnosis.hpp"
#include "rubato/protocol/element_rule.hpp"
#include "rubato/protocol/filter_rule.hpp"
#include "rubato/protocol/pace_rule.hpp"
#include "rubato/protocol/read_ahead.hpp"

/// Protocols as values. Users write policies as types, which concepts check; each is asked once per
/// message, so from here on down it is a table of what it answers, and all that uses it is compiled
/// once.
namespace rubato {

/// A round as a visibility by rounds has it.
struct round_rule {
  std::uint32_t size;  ///< K
  late_commit late;    ///< what becomes of those that come after their round
};

/// A visibility policy as a value. Copies share the policy.
class visibility_rule {
 public:
  /// Any policy converts. @throws what its `check()` does, if it has one
  template <class P>
    requires(!std::same_as<P, visibility_rule> && visibility_policy<P>)
  visibility_rule(P policy)  // NOLINT: as above
      : holds_back_(P::holds_back),
        synchronized_(synchronized_visibility<P>),
        fingerprint_(detail::fingerprint_of(policy)),
        type_(&typeid(P)) {
    detail::check_options(policy);
    if constexpr (round_visibility<P>) rounds_ = {policy.round_size(), P::late};
    answers_ = std::make_shared<model<P> const>(std::move(policy));
  }

  /// Whether commits are folded round by round; then `horizon` is not asked.
  [[nodiscard]] std::optional<round_rule> const& rounds() const noexcept { return rounds_; }
  /// Whether commits are held back at all; if not, `horizon` is not asked.
  [[nodiscard]] bool holds_back() const noexcept { return holds_back_; }
  /// Whether reads are of cuts that the coordinator grants.
  [[nodiscard]] bool synchronized() const noexcept { return synchronized_; }
  [[nodiscard]] clock_index horizon(fold_window const& w) const noexcept { return answers_->horizon(w); }
  /// As of an admission.
  [[nodiscard]] std::optional<std::uint64_t> fingerprint() const noexcept { return fingerprint_; }
  /// One with a copy of the policy to itself, as of an admission.
  [[nodiscard]] visibility_rule unshared() const {
    auto own = *this;
    own.answers_ = answers_->copy();
    return own;
  }
  /// The policy's type, for messages.
  [[nodiscard]] std::type_info const& type() const noexcept { return *type_; }

 private:
  struct answers {
    virtual ~answers() = default;
    virtual std::shared_ptr<answers const> copy() const = 0;
    virtual clock_index horizon(fold_window const& w) const noexcept = 0;
  };
  template <class P>
  struct model final : answers {
    explicit model(P p) : policy(std::move(p)) {}
    std::shared_ptr<answers const> copy() const override { return std::make_shared<model const>(policy); }
    clock_index horizon([[maybe_unused]] fold_window const& w) const noexcept override {
      if constexpr (windowed_visibility<P>) return policy.horizon(w);
      else return clock_index::highest();
    }
    P policy;
  };

  bool holds_back_;
  bool synchronized_;
  std::optional<std::uint64_t> fingerprint_;
  std::type_info const* type_;
  std::optional<round_rule> rounds_;
  std::shared_ptr<answers const> answers_;
};

/// A merge as a value: of a table, or of the protocol. Copies share the policy.
class merge_rule {
 public:
  /// Any policy converts. @throws what its `check()` does, if it has one
  template <class P>
    requires(!std::same_as<P, merge_rule> && merge_policy<P>)
  merge_rule(P policy)  // NOLINT: as above
      : exact_(exact_merge<P>),
        versioned_(versioned_merge<P>),
        fingerprint_(detail::fingerprint_of(policy)),
        type_(&typeid(P)) {
    detail::check_options(policy);
    if constexpr (velocity_merge<P>) decay_ = policy.decay();
    if constexpr (requires { { P::keeps_sum } -> std::convertible_to<bool>; }) keeps_sum_ = P::keeps_sum;
    else keeps_sum_ = decay_ == 1.0;
    if constexpr (requires { { P::by_age } -> std::convertible_to<bool>; }) by_age_ = P::by_age;
    answers_ = std::make_shared<model<P> const>(std::move(policy));
    elements_ = answers_->elements();
  }

  /// Whether every weight is 1, so that it applies to integers.
  [[nodiscard]] bool exact() const noexcept { return exact_; }
  /// Whether updates are kept apart by version; the functions of a `versioned_merge` are asked then only.
  [[nodiscard]] bool versioned() const noexcept { return versioned_; }
  /// Whether it goes by when a worker has read, so that nobody may read for another.
  [[nodiscard]] bool by_age() const noexcept { return by_age_; }
  /// Whether it keeps what it was sent, so that differences add up.
  [[nodiscard]] bool keeps_sum() const noexcept { return keeps_sum_; }
  /// What is left of the velocity in each step, if the merge has one.
  [[nodiscard]] std::optional<double> const& decay() const noexcept { return decay_; }
  /// How it moves elements, if it is an `element_merge`; lives as long as the last copy of this rule.
  [[nodiscard]] element_rule const* elements() const noexcept { return elements_; }
  /// Whether it moves the rows of updates only, so that one of zeros is not the same as none.
  [[nodiscard]] bool lazy() const noexcept { return elements_ != nullptr && elements_->lazy(); }
  /// Whether it keeps a copy of the table for each worker, so that reads depend on who reads.
  [[nodiscard]] bool keeps_copies() const noexcept {
    return elements_ != nullptr && elements_->copy() != worker_copy::none;
  }
  /// The policy's type, for messages.
  [[nodiscard]] std::type_info const& type() const noexcept { return *type_; }
  /// As of an admission.
  [[nodiscard]] std::optional<std::uint64_t> fingerprint() const noexcept { return fingerprint_; }
  /// One with a copy of the policy to itself, as of an admission.
  [[nodiscard]] merge_rule unshared() const {
    auto own = *this;
    own.answers_ = answers_->copy();
    own.elements_ = own.answers_->elements();
    return own;
  }

  [[nodiscard]] double weight(commit_info const& c) const noexcept { return answers_->weight(c); }
  [[nodiscard]] version_index map(commit_info const& c) const noexcept { return answers_->map(c); }
  [[nodiscard]] double share(version_state const& v) const noexcept { return answers_->share(v); }
  [[nodiscard]] std::optional<double> expire(version_state const& v, version_window const& w) const noexcept {
    return answers_->expire(v, w);
  }
  [[nodiscard]] version_index version_after(version_read const& r) const noexcept {
    return answers_->version_after(r);
  }

 private:
  struct answers {
    virtual ~answers() = default;
    virtual std::shared_ptr<answers const> copy() const = 0;
    virtual double weight(commit_info const& c) const noexcept = 0;
    virtual version_index map(commit_info const&) const noexcept { return {}; }
    virtual double share(version_state const&) const noexcept { return 0; }
    virtual std::optional<double> expire(version_state const&, version_window const&) const noexcept {
      return std::nullopt;
    }
    virtual version_index version_after(version_read const& r) const noexcept { return r.own; }
    virtual element_rule const* elements() const noexcept { return nullptr; }
  };
  template <class P>
  struct model : answers {
    explicit model(P p) : policy(std::move(p)) {}
    std::shared_ptr<answers const> copy() const override { return std::make_shared<model const>(policy); }
    double weight(commit_info const& c) const noexcept override { return policy.weight(c); }
    P policy;
  };
  template <versioned_merge P>
  struct model<P> : answers {
    explicit model(P p) : policy(std::move(p)) {}
    std::shared_ptr<answers const> copy() const override { return std::make_shared<model const>(policy); }
    double weight(commit_info const& c) const noexcept override { return policy.weight(c); }
    version_index map(commit_info const& c) const noexcept override { return policy.map(c); }
    double share(version_state const& v) const noexcept override { return policy.share(v); }
    std::optional<double> expire(version_state const& v, version_window const& w) const noexcept override {
      return policy.expire(v, w);
    }
    version_index version_after(version_read const& r) const noexcept override {
      return policy.version_after(r);
    }
    P policy;
  };
  template <element_merge P>
    requires(!versioned_merge<P>)
  struct model<P> : answers {
    explicit model(P p) : policy(std::move(p)), rule(policy) {}
    std::shared_ptr<answers const> copy() const override { return std::make_shared<model const>(policy); }
    double weight(commit_info const& c) const noexcept override { return policy.weight(c); }
    element_rule const* elements() const noexcept override { return &rule; }
    P policy;
    detail::element_rule_of<P> rule;
  };

  bool exact_;
  bool versioned_;
  bool by_age_ = false;
  bool keeps_sum_ = false;
  std::optional<double> decay_;
  std::optional<std::uint64_t> fingerprint_;
  std::type_info const* type_;
  std::shared_ptr<answers const> answers_;
  element_rule const* elements_ = nullptr;
};

/// A protocol as a value: what its policies answer, and its name. Any protocol converts to it, and
/// `cluster` takes it in a protocol's place, for programs that choose one while they run.
struct rules {
  /// Any protocol converts. @throws what the `check()` of its policies does, if they have one
  template <class P>
    requires(!std::same_as<P, rules> && protocol<P>)
  rules(P const& p)  // NOLINT: protocols are meant to convert
      : admission(p.admission()),
        visibility(p.visibility()),
        merge(p.merge()),
        pace(p.pace()),
        name(name_of(p)) {
    using filter_type = decltype(filter_of(p));
    static_assert(detail::diagnose_filter<filter_type>());
    if constexpr (!std::same_as<filter_type, send_all>) filter = filter_of(p);
    static_assert(detail::diagnose_reads<decltype(detail::reads_of(p))>());
    renews = detail::make_read_rule(detail::reads_of(p));
  }

  admission_rule admission;  ///< who waits
  visibility_rule visibility;  ///< which commits are seen
  merge_rule merge;  ///< of the tables that have none of their own
  pace_rule pace;  ///< when a worker commits
  std::optional<filter_rule> filter{};  ///< what it sends; none: all
  read_rule renews{};  ///< when it renews its copies ahead of time; none: never
  std::string name;  ///< what reports print
};

/// The rules with one policy replaced, as `with` does for protocols.
template <class Part>
[[nodiscard]] rules with(rules r, Part part) {
  static_assert(detail::diagnose_part<Part>());
  if constexpr (admission_policy<Part>) r.admission = std::move(part);
  else if constexpr (visibility_policy<Part>) r.visibility = std::move(part);
  else if constexpr (merge_policy<Part>) r.merge = std::move(part);
  else if constexpr (pace_policy<Part>) r.pace = std::move(part);
  else if constexpr (std::same_as<Part, send_all>) r.filter.reset();
  else if constexpr (commit_filter<Part>) r.filter = std::move(part);
  else if constexpr (detail::reads_part<Part>) r.renews = detail::make_read_rule(std::move(part));
  return r;
}

/// Several parts replaced, from left to right.
template <class First, class Second, class... Rest>
[[nodiscard]] rules with(rules r, First first, Second second, Rest... rest) {
  return with(with(std::move(r), std::move(first)), std::move(second), std::move(rest)...);
}

}  // namespace rubato
