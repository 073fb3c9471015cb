// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "rubato/core/check_options.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/protocol/extending_admission.hpp"
#include "rubato/protocol/heeding_admission.hpp"
#include "rubato/protocol/limiting_admission.hpp"
#include "rubato/protocol/round_admission.hpp"

namespace rubato {

namespace detail {
/// How many workers the policy is for, if it says so; else 0.
template <class P>
[[nodiscard]] constexpr std::uint32_t run_workers_of([[maybe_unused]] P const& p) noexcept {
  constexpr bool says = requires { { p.run_workers() } noexcept -> std::same_as<std::uint32_t>; };
  static_assert(says || !requires(P& own) { own.run_workers(); },
                "an admission's run_workers() must be const and noexcept, and give a std::uint32_t");
  if constexpr (says) return p.run_workers();
  else return 0;
}
}  // namespace detail

/// An admission policy as a value. Copies share the policy. Called concurrently.
class admission_rule {
 public:
  /// Any policy converts. @throws what its `check()` does, if it has one
  template <class P>
    requires(!std::same_as<P, admission_rule> && admission_policy<P>)
  admission_rule(P policy)  // NOLINT: policies are meant to convert
      : bound_((detail::check_options(policy), policy.bound())),
        asks_who_(detail::admits_by_worker<P>),
        by_round_(round_admission<P>),
        samples_(sampling_admission<P>),
        heeds_some_(heeding_admission<P>),
        extends_(extending_admission<P>),
        limits_(limiting_admission<P>),
        run_workers_(detail::run_workers_of(policy)),
        fingerprint_(detail::fingerprint_of(policy)),
        answers_(std::make_shared<model<P> const>(std::move(policy))) {}

  [[nodiscard]] staleness bound() const noexcept { return bound_; }
  /// Whether answers depend on the worker.
  [[nodiscard]] bool asks_who() const noexcept { return asks_who_; }
  /// Whether workers wait for rounds, not for clocks.
  [[nodiscard]] bool by_round() const noexcept { return by_round_; }
  /// Whether some sit rounds out; if not, `takes_part` is always true.
  [[nodiscard]] bool samples() const noexcept { return samples_; }
  [[nodiscard]] bool takes_part(worker_id w, version_index round) const noexcept {
    return answers_->takes_part(w, round);
  }
  /// Whether workers wait for some of the others only; if not, `heeds` is always true.
  [[nodiscard]] bool heeds_some() const noexcept { return heeds_some_; }
  [[nodiscard]] bool heeds(worker_id reader, worker_id other, clock_index c) const noexcept {
    return answers_->heeds(reader, other, c);
  }
  /// Whether workers may go on beyond `need`, by when commits come; if not, `extra` is always 0.
  [[nodiscard]] bool extends() const noexcept { return extends_; }
  [[nodiscard]] std::int64_t extra(commit_times const& own, commit_times const& slowest,
                                   std::int64_t most) const noexcept {
    return answers_->extra(own, slowest, most);
  }
  /// Whether workers wait by what they have changed, not for clocks; if not, `limit` is not asked.
  [[nodiscard]] bool limits() const noexcept { return limits_; }
  [[nodiscard]] double limit(clock_index c) const noexcept { return answers_->limit(c); }
  /// Whether who is let in depends on more than clocks, so that nobody may read for another.
  [[nodiscard]] bool lets_in_one_by_one() const noexcept { return heeds_some_ || extends_ || limits_; }
  /// How many workers a run must begin with; 0: any number.
  [[nodiscard]] std::uint32_t run_workers() const noexcept { return run_workers_; }
  /// What the policy says of itself, see `fingerprinted_policy`.
  [[nodiscard]] std::optional<std::uint64_t> fingerprint() const noexcept { return fingerprint_; }
  /// One with a copy of the policy to itself: to ask it what is no part of a run.
  [[nodiscard]] admission_rule unshared() const {
    auto own = *this;
    own.answers_ = answers_->copy();
    return own;
  }
  [[nodiscard]] clock_index need(clock_index c, staleness s, worker_id who) const noexcept {
    return answers_->need(c, s, who);
  }
  [[nodiscard]] clock_index cache_need(clock_index c, staleness s, worker_id who) const noexcept {
    return answers_->cache_need(c, s, who);
  }

 private:
  struct answers {
    virtual ~answers() = default;
    virtual std::shared_ptr<answers const> copy() const = 0;
    virtual clock_index need(clock_index c, staleness s, worker_id who) const noexcept = 0;
    virtual clock_index cache_need(clock_index c, staleness s, worker_id who) const noexcept = 0;
    virtual bool takes_part(worker_id w, version_index round) const noexcept = 0;
    virtual bool heeds(worker_id reader, worker_id other, clock_index c) const noexcept = 0;
    virtual std::int64_t extra(commit_times const& own, commit_times const& slowest,
                               std::int64_t most) const noexcept = 0;
    virtual double limit(clock_index c) const noexcept = 0;
  };
  template <class P>
  struct model final : answers {
    explicit model(P p) : policy(std::move(p)) {}
    std::shared_ptr<answers const> copy() const override { return std::make_shared<model const>(policy); }
    clock_index need(clock_index c, staleness s, [[maybe_unused]] worker_id who) const noexcept override {
      if constexpr (detail::admits_by_worker<P>) return policy.need(c, s, who);
      else return policy.need(c, s);
    }
    clock_index cache_need(clock_index c, staleness s,
                           [[maybe_unused]] worker_id who) const noexcept override {
      if constexpr (detail::admits_by_worker<P>) return policy.cache_need(c, s, who);
      else return policy.cache_need(c, s);
    }
    bool takes_part([[maybe_unused]] worker_id w, [[maybe_unused]] version_index round) const noexcept override {
      if constexpr (sampling_admission<P>) return policy.takes_part(w, round);
      return true;
    }
    bool heeds([[maybe_unused]] worker_id reader, [[maybe_unused]] worker_id other,
               [[maybe_unused]] clock_index c) const noexcept override {
      if constexpr (heeding_admission<P>) return policy.heeds(reader, other, c);
      return true;
    }
    std::int64_t extra([[maybe_unused]] commit_times const& own, [[maybe_unused]] commit_times const& slowest,
                       [[maybe_unused]] std::int64_t most) const noexcept override {
      if constexpr (extending_admission<P>) return policy.extra(own, slowest, most);
      return 0;
    }
    double limit([[maybe_unused]] clock_index c) const noexcept override {
      if constexpr (limiting_admission<P>) return policy.limit(c);
      return 0;
    }
    P policy;
  };

  staleness bound_;
  bool asks_who_;
  bool by_round_;
  bool samples_;
  bool heeds_some_;
  bool extends_;
  bool limits_;
  std::uint32_t run_workers_;
  std::optional<std::uint64_t> fingerprint_;
  std::shared_ptr<answers const> answers_;
};

}  // namespace rubato
