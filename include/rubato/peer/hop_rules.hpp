// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "rubato/core/check_options.hpp"
#include "rubato/peer/concepts.hpp"

namespace rubato {

/// A protocol of the Hop family as a value: what its parts answer. Any of them converts to it. Copies
/// share the parts. Called concurrently.
class hop_rules {
 public:
  /// @throws what a `check()` of its gather, reduce or gap does; of a jump see `check_jump`
  template <class P>
    requires(!std::same_as<P, hop_rules> && hop_protocol<P>)
  hop_rules(P const& p) {  // NOLINT: protocols are meant to convert
    detail::check_options(p.gather());
    detail::check_options(p.reduce());
    detail::check_options(p.gap());
    using parts = model<decltype(p.gather()), decltype(p.reduce()), decltype(p.jump())>;
    kept = decltype(p.gather())::kept;
    bounds_gap = decltype(p.gather())::bounds_gap;
    outlives_loss = decltype(p.gather())::outlives_loss;
    acks = decltype(p.gap())::acks;
    if constexpr (decltype(p.gap())::tokens) gap_max = p.gap().gap_max();
    jumps = decltype(p.jump())::jumps;
    order = p.order();
    answers_ = std::make_shared<parts const>(p.gather(), p.reduce(), p.jump());
  }

  keeping kept = keeping::by_iteration;
  bool bounds_gap = true;
  bool outlives_loss = false;
  bool acks = false;
  std::optional<std::int64_t> gap_max{};  ///< max_ig, where there are token queues
  bool jumps = false;
  iteration_order order = iteration_order::parallel;

  [[nodiscard]] std::size_t needed(std::size_t n) const noexcept { return answers_->needed(n); }
  [[nodiscard]] iteration_index oldest(iteration_index k) const noexcept {
    return kept == keeping::by_iteration ? k : answers_->oldest(k);
  }
  [[nodiscard]] double weight(update_info const& u) const noexcept { return answers_->weight(u); }
  /// 1 where nobody jumps.
  [[nodiscard]] std::int64_t jump(std::int64_t lag) const noexcept { return answers_->jump(lag); }
  /// @throws option_error for a jump's options that cannot be meant
  void check_jump() const { answers_->check_jump(); }

  [[nodiscard]] bool by_iteration() const noexcept { return kept == keeping::by_iteration; }
  /// Whether the size of a peer's queue depends on `peer_site::lead_max`.
  [[nodiscard]] bool needs_lead() const noexcept { return by_iteration() && !gap_max && !acks; }

 private:
  struct answers {
    virtual ~answers() = default;
    [[nodiscard]] virtual std::size_t needed(std::size_t n) const noexcept = 0;
    [[nodiscard]] virtual iteration_index oldest(iteration_index k) const noexcept = 0;
    [[nodiscard]] virtual double weight(update_info const& u) const noexcept = 0;
    [[nodiscard]] virtual std::int64_t jump(std::int64_t) const noexcept { return 1; }
    virtual void check_jump() const {}
  };
  template <class Gather, class Reduce, class Jump>
  struct model final : answers {
    model(Gather g, Reduce r, Jump j) : gather(g), reduce(r), jump_part(j) {}
    [[nodiscard]] std::size_t needed(std::size_t n) const noexcept override { return gather.needed(n); }
    [[nodiscard]] iteration_index oldest(iteration_index k) const noexcept override {
      return gather.oldest(k);
    }
    [[nodiscard]] double weight(update_info const& u) const noexcept override { return reduce.weight(u); }
    [[nodiscard]] std::int64_t jump([[maybe_unused]] std::int64_t lag) const noexcept override {
      if constexpr (Jump::jumps) return jump_part.jump(lag);
      return 1;
    }
    void check_jump() const override { detail::check_options(jump_part); }
    Gather gather;
    Reduce reduce;
    Jump jump_part;
  };

  std::shared_ptr<answers const> answers_;
};

}  // namespace rubato
