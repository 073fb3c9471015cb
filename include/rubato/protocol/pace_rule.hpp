// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <typeinfo>
#include <utility>

#include "rubato/core/check_options.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/protocol/conductor.hpp"

namespace rubato {

/// A pace as a value. A copy is a worker's own: it follows orders by itself.
class pace_rule {
 public:
  /// Any pace converts. @throws what its `check()` does, if it has one
  template <class P>
    requires(!std::same_as<P, pace_rule> && pace_policy<P>)
  pace_rule(P policy)  // NOLINT: each pace is one, as it is
      : fingerprint_(detail::fingerprint_of(policy)),
        answers_(std::make_unique<model<P>>(detail::checked(std::move(policy)))) {
    static_assert(conducted_pace<P> || !requires(P const p) { p.make_conductor(); },
                  "the pace makes a conductor, but is no conducted_pace: see pace_conductor for what is missing");
  }
  pace_rule(pace_rule const& other) : fingerprint_(other.fingerprint_), answers_(other.answers_->clone()) {}
  pace_rule(pace_rule&&) noexcept = default;
  pace_rule& operator=(pace_rule other) noexcept {
    fingerprint_ = other.fingerprint_;
    answers_.swap(other.answers_);
    return *this;
  }
  ~pace_rule() = default;

  [[nodiscard]] commit_due due(pace_point const& p) const noexcept { return answers_->due(p); }

  /// What the policy says of itself, see `fingerprinted_policy`.
  [[nodiscard]] std::optional<std::uint64_t> fingerprint() const noexcept { return fingerprint_; }
  /// Whether it has a half in the coordinator; `follow` and `spent` do nothing otherwise.
  [[nodiscard]] bool conducted() const noexcept { return answers_->orders() != nullptr; }
  /// The type of its conductor's orders, for messages; nullptr without a conductor.
  [[nodiscard]] std::type_info const* orders() const noexcept { return answers_->orders(); }
  /// Follows an order, given as it lies in memory. Returns whether it can be one.
  bool follow(std::span<std::byte const> order, pace_point const& p) { return answers_->follow(order, p); }
  void spent(duration d) { answers_->spent(d); }
  /// The conductor of one run; nullptr where there is none. @throws option_error for what cannot be meant
  [[nodiscard]] std::unique_ptr<conductor> make_conductor() const { return answers_->make_conductor(); }

 private:
  template <pace_conductor C>
  class erased final : public conductor {
   public:
    explicit erased(C c) : conductor_(std::move(c)) {}
    void join(worker_id w, clock_index at, time_point now, orders& out) override {
      conductor_.join(w, at, now, fresh_);
      pass(out);
    }
    void leave(worker_id w) override { conductor_.leave(w); }
    void commit(worker_id w, clock_index at, time_point now) override { conductor_.commit(w, at, now); }
    void observe(time_point at, double loss) override { conductor_.observe(at, loss); }
    void tick(time_point now, orders& out) override {
      conductor_.tick(now, fresh_);
      pass(out);
    }
    time_point next_tick() const override { return conductor_.next_tick(); }
    time_point next_sample() const override { return conductor_.next_sample(); }
    std::span<pace_change const> changes() const override { return conductor_.changes(); }

   private:
    void pass(orders& out) {
      for (auto const& [to, one] : fresh_) {
        auto const bytes = std::as_bytes(std::span(&one, 1));
        out.push_back({to, {bytes.begin(), bytes.end()}});
      }
      fresh_.clear();
    }
    C conductor_;
    pace_orders<typename C::order_type> fresh_;
  };

  struct answers {
    virtual ~answers() = default;
    virtual std::unique_ptr<answers> clone() const = 0;
    virtual commit_due due(pace_point const& p) const noexcept = 0;
    virtual std::type_info const* orders() const noexcept { return nullptr; }
    virtual bool follow(std::span<std::byte const>, pace_point const&) { return false; }
    virtual void spent(duration) {}
    virtual std::unique_ptr<conductor> make_conductor() const { return nullptr; }
  };
  template <class P>
  struct model final : answers {
    explicit model(P p) : policy(std::move(p)) {}
    std::unique_ptr<answers> clone() const override { return std::make_unique<model>(policy); }
    commit_due due(pace_point const& p) const noexcept override { return policy.due(p); }
    P policy;
  };
  template <conducted_pace P>
  struct model<P> final : answers {
    using conductor_type = decltype(std::declval<P const&>().make_conductor());
    using order_type = typename conductor_type::order_type;

    explicit model(P p) : policy(std::move(p)) {}
    std::unique_ptr<answers> clone() const override { return std::make_unique<model>(policy); }
    commit_due due(pace_point const& p) const noexcept override { return policy.due(p); }
    std::type_info const* orders() const noexcept override { return &typeid(order_type); }
    bool follow(std::span<std::byte const> bytes, pace_point const& p) override {
      order_type order;
      if (bytes.size() != sizeof order) return false;
      std::memcpy(&order, bytes.data(), sizeof order);
      policy.follow(order, p);
      return true;
    }
    void spent(duration d) override { policy.spent(d); }
    std::unique_ptr<conductor> make_conductor() const override {
      return std::make_unique<erased<conductor_type>>(policy.make_conductor());
    }
    P policy;
  };

  std::optional<std::uint64_t> fingerprint_;
  std::unique_ptr<answers> answers_;
};

}  // namespace rubato
