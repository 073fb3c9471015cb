// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "rubato/core/element.hpp"
#include "rubato/peer/hop_core.hpp"
#include "rubato/peer/peer_node.hpp"
#include "rubato/storage/shared_update.hpp"

namespace rubato {

/// The arithmetic of peers: parameters of one size that are never changed once they are shared, the local
/// step, and averages. What comes out goes into memory that nobody uses any more.
///
/// Cost of an average: one pass that reads each part, and writes the result. Not synchronized.
class local_parameters {
 public:
  explicit local_parameters(node_setup const& setup);

  [[nodiscard]] element_type element() const noexcept { return element_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_ * size_of(element_); }
  /// Parameters that are made from now on lie there, where it has room.
  void use(std::shared_ptr<block_memory> memory);
  /// Whether these could be some peer's.
  [[nodiscard]] bool fits(shared_update const& x) const noexcept {
    return x->values.size_bytes() == size_bytes();
  }
  /// Those that all begin with. @pre asked once
  [[nodiscard]] shared_update initial(std::span<std::byte const> values) const;
  /// The local step begins anew.
  void restart() { step_->start(size_); }

  /// `Σ weight·parameters`, added up in the order of `parts`, each weight rounded to the element's type
  /// first; `own` stands for the part without parameters. With a gradient, the step on top, computed at
  /// `own`. A part that nobody else refers to may be gone afterwards: the average takes its place. @pre there is a part
  [[nodiscard]] shared_update average(std::span<contribution> parts, shared_update const& own,
                                      std::span<std::byte const> gradient = {});
  /// `base` and the step, computed at `x`.
  [[nodiscard]] shared_update stepped(shared_update const& base, shared_update const& x,
                                      std::span<std::byte const> gradient);
  /// The same with the step times `scale`.
  [[nodiscard]] shared_update stepped(shared_update const& base, shared_update const& x,
                                      std::span<std::byte const> gradient, double scale);
  /// The same with the mean of `peers` gradients, of which this is the sum: in one pass.
  [[nodiscard]] shared_update stepped_by_mean(shared_update const& base, shared_update const& x,
                                              std::span<std::byte const> sum, std::uint32_t peers);

  // ---- for gradients that come in pieces, in any order

  /// Room for parameters, which mean nothing before they are written.
  [[nodiscard]] update_buffer fresh() const;
  /// `stepped` for the parameters from number `first` on, as many as the gradient is for.
  void step_into(update& to, shared_update const& base, shared_update const& x, std::size_t first,
                 std::span<std::byte const> gradient);

 private:
  [[nodiscard]] update_buffer room_for_average(std::span<contribution> parts) const;

  element_type element_;
  std::size_t size_;
  update_pool pool_;
  std::vector<std::byte const*> places_;  ///< of an average's parts
  std::unique_ptr<peer_step> step_;
};

}  // namespace rubato
