// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include <rubato/peer/all_reduce.hpp>
#include <rubato/peer/mixing.hpp>
#include <rubato/peer/peer_node.hpp>

#include "peer/wrapped_node.hpp"

namespace rubato::test {

/// all_reduce, which counts the steps that begin with the next peer near, and those that do not, but for the first of
/// each peer: by the second one all have heard of each other.
struct noting_nearness {
  struct counts {
    std::atomic<int> near = 0;
    std::atomic<int> far = 0;
  };
  std::shared_ptr<counts> steps = std::make_shared<counts>();

  [[nodiscard]] std::unique_ptr<peer_node> make_node(node_setup const& setup) const {
    return std::make_unique<node>(all_reduce{}.make_node(setup), steps,
                                  worker_id{(setup.self.value() + 1) % setup.mixing.topology().size()});
  }

 private:
  class node final : public wrapped_node {
   public:
    node(std::unique_ptr<peer_node> of, std::shared_ptr<counts> to, worker_id next)
        : wrapped_node(std::move(of)), steps_(std::move(to)), next_(next) {}

    void step(peer_endpoint& e, std::span<std::byte const> gradient) override {
      if (iteration() != 0) ++(e.is_near(next_) ? steps_->near : steps_->far);
      wrapped_node::step(e, gradient);
    }

   private:
    std::shared_ptr<counts> steps_;
    worker_id next_;
  };
};
static_assert(peer_protocol<noting_nearness>);

}  // namespace rubato::test
