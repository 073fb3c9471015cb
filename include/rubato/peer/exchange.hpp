// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rubato/core/check_options.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/peer/concepts.hpp"

/// Who exchanges with whom, iteration by iteration: models of `exchange_schedule`. Stateless; any number of threads
/// may ask one object.
namespace rubato {

/// In iteration k peer i sends to i + 2^(k mod L) mod n, where L is how many powers of two are less than n: so each
/// sends one update and gets one, and after L iterations all have heard of all. Goes beyond the edges of the graph,
/// of which only the size counts. O(1).
/// Source: Assran et al., ICML 2019 (the directed exponential graph, one peer per iteration).
struct one_peer_exponential {
  [[nodiscard]] std::vector<worker_id> out(graph const& g, worker_id i, iteration_index k) const;
  [[nodiscard]] std::vector<worker_id> in(graph const& g, worker_id j, iteration_index k) const;
  /// As far away as a power of two, in either direction.
  [[nodiscard]] std::vector<worker_id> partners(graph const& g, worker_id i) const;
  [[nodiscard]] std::string text() const { return "one-peer exponential"; }
};

/// All neighbors in the graph, which may be directed and of any degrees, in every iteration. O(degree).
struct every_neighbor {
  [[nodiscard]] std::vector<worker_id> out(graph const& g, worker_id i, iteration_index k) const;
  [[nodiscard]] std::vector<worker_id> in(graph const& g, worker_id j, iteration_index k) const;
  /// The neighbors, whatever the direction.
  [[nodiscard]] std::vector<worker_id> partners(graph const& g, worker_id i) const;
  [[nodiscard]] std::string text() const { return "every neighbor"; }
};

/// Each peer sends to one of its out-neighbors, which it draws in each iteration, or to nobody. `out` is O(degree),
/// `in` O(in-neighbors · their degrees).
struct random_partner {
  std::uint64_t seed = 1;  ///< the same at all peers
  double probability = 1;  ///< that it sends in an iteration: above 0, at most 1

  void check() const;
  [[nodiscard]] std::vector<worker_id> out(graph const& g, worker_id i, iteration_index k) const;
  [[nodiscard]] std::vector<worker_id> in(graph const& g, worker_id j, iteration_index k) const;
  /// The neighbors, whatever the direction.
  [[nodiscard]] std::vector<worker_id> partners(graph const& g, worker_id i) const {
    return every_neighbor().partners(g, i);
  }
  [[nodiscard]] std::string text() const;
};

/// In each iteration all peers, whatever the graph, are cut at random into groups of at most `size`, alike but for
/// one; each sends to all others of its group. O(peers).
struct random_groups {
  std::uint32_t size = 3;  ///< the most members of a group; 2 or more
  std::uint64_t seed = 1;  ///< the same at all peers

  void check() const;
  /// The group of peer i, itself included, ascending.
  [[nodiscard]] std::vector<worker_id> group(graph const& g, worker_id i, iteration_index k) const;
  [[nodiscard]] std::vector<worker_id> out(graph const& g, worker_id i, iteration_index k) const;
  [[nodiscard]] std::vector<worker_id> in(graph const& g, worker_id j, iteration_index k) const {
    return out(g, j, k);
  }
  [[nodiscard]] std::string text() const;
};

namespace detail {

/// One, or one that lacks something.
template <class S>
concept is_meant_as_schedule = exchange_schedule<S> || requires { &S::out; } || requires { &S::in; };

/// Says in a sentence what a type lacks to be a schedule. Whether it lacks nothing.
template <class S>
consteval bool diagnose_schedule() {
  using those = std::vector<worker_id>;
  static_assert(std::copyable<S>, "an exchange_schedule must be copyable, by assignment too");
  static_assert(requires(S const s, graph const& g, worker_id i, iteration_index k) {
    { s.out(g, i, k) } -> std::same_as<those>;
  }, "an exchange_schedule needs out(graph const&, worker_id, iteration_index) const, which gives a "
     "std::vector<worker_id>");
  static_assert(requires(S const s, graph const& g, worker_id i, iteration_index k) {
    { s.in(g, i, k) } -> std::same_as<those>;
  }, "an exchange_schedule needs in(graph const&, worker_id, iteration_index) const, which gives a "
     "std::vector<worker_id>");
  static_assert(requires(S const s) { { s.text() } -> std::same_as<std::string>; },
                "an exchange_schedule needs text() const, which gives a std::string");
  diagnose_check<S>();
  return exchange_schedule<S>;
}

}  // namespace detail

/// A schedule as a value: any of them converts to it, a user's as well. Copies share it.
class exchange_rules {
 public:
  /// Any schedule converts.
  template <class S>
    requires(!std::same_as<S, exchange_rules> && detail::is_meant_as_schedule<S>)
  exchange_rules(S const& s) {  // NOLINT: meant to convert
    if constexpr (detail::diagnose_schedule<S>()) answers_ = std::make_shared<model<S> const>(s);
  }

  /// @throws option_error for options that cannot be meant
  void check() const { answers_->check(); }
  [[nodiscard]] std::vector<worker_id> out(graph const& g, worker_id i, iteration_index k) const {
    return answers_->out(g, i, k);
  }
  [[nodiscard]] std::vector<worker_id> in(graph const& g, worker_id j, iteration_index k) const {
    return answers_->in(g, j, k);
  }
  /// Nothing where all others may be.
  [[nodiscard]] std::optional<std::vector<worker_id>> partners(graph const& g, worker_id i) const {
    return answers_->partners(g, i);
  }
  [[nodiscard]] std::string text() const { return answers_->text(); }

 private:
  struct answers {
    virtual ~answers() = default;
    virtual void check() const = 0;
    [[nodiscard]] virtual std::vector<worker_id> out(graph const& g, worker_id i, iteration_index k) const = 0;
    [[nodiscard]] virtual std::vector<worker_id> in(graph const& g, worker_id j, iteration_index k) const = 0;
    [[nodiscard]] virtual std::optional<std::vector<worker_id>> partners(graph const& g, worker_id i) const = 0;
    [[nodiscard]] virtual std::string text() const = 0;
  };
  template <class S>
  struct model final : answers {
    explicit model(S const& s) : schedule(s) {}
    void check() const override { detail::check_options(schedule); }
    [[nodiscard]] std::vector<worker_id> out(graph const& g, worker_id i, iteration_index k) const override {
      return schedule.out(g, i, k);
    }
    [[nodiscard]] std::vector<worker_id> in(graph const& g, worker_id j, iteration_index k) const override {
      return schedule.in(g, j, k);
    }
    [[nodiscard]] std::optional<std::vector<worker_id>> partners([[maybe_unused]] graph const& g,
                                                                 [[maybe_unused]] worker_id i) const override {
      if constexpr (requires { schedule.partners(g, i); }) return schedule.partners(g, i);
      else return std::nullopt;
    }
    [[nodiscard]] std::string text() const override { return schedule.text(); }
    S schedule;
  };

  std::shared_ptr<answers const> answers_;
};
static_assert(exchange_schedule<exchange_rules>);

}  // namespace rubato
