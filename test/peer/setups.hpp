// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <memory>
#include <rubato/peer/local_step.hpp>
#include <rubato/peer/mixing.hpp>
#include <rubato/peer/peer_node.hpp>
#include <span>
#include <vector>

namespace rubato::test {

/// What a peer_group would make the node of peer `self` of. Refers to `mixing` and `initial`.
template <std::floating_point T, local_step Step = sgd>
[[nodiscard]] node_setup setup_of(mixing_matrix const& mixing, worker_id self,
                                  std::vector<T> const& initial, Step const& step = {}) {
  return {.mixing = mixing,
          .self = self,
          .element = element_type_of<T>(),
          .initial = std::as_bytes(std::span(initial)),
          .make_step = [step]() -> std::unique_ptr<peer_step> {
            return std::make_unique<detail::peer_step_of<T, Step>>(step);
          }};
}

}  // namespace rubato::test
