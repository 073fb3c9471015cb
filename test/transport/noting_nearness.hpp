// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <rubato/peer/all_reduce.hpp>
#include <rubato/peer/mixing.hpp>
#include <rubato/peer/peer_node.hpp>

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
  class node final : public peer_node {
   public:
    node(std::unique_ptr<peer_node> of, std::shared_ptr<counts> to, worker_id next)
        : inner_(std::move(of)), steps_(std::move(to)), next_(next) {}

    [[nodiscard]] bool deliver(worker_id from, peer_message&& m, outbox& out) override {
      return inner_->deliver(from, std::move(m), out);
    }
    void lose(worker_id w) override { inner_->lose(w); }
    void leave(outbox& out) override { inner_->leave(out); }
    [[nodiscard]] bool can_go_on() const noexcept override { return inner_->can_go_on(); }
    [[nodiscard]] shared_update share() const override { return inner_->share(); }
    void reset() override { inner_->reset(); }
    void begin(peer_endpoint& e, std::int64_t iterations) override { inner_->begin(e, iterations); }
    void step(peer_endpoint& e, std::span<std::byte const> gradient) override {
      if (inner_->iteration() != 0) ++(e.is_near(next_) ? steps_->near : steps_->far);
      inner_->step(e, gradient);
    }
    [[nodiscard]] std::span<std::byte const> parameters() const noexcept override { return inner_->parameters(); }
    [[nodiscard]] std::int64_t iteration() const noexcept override { return inner_->iteration(); }
    [[nodiscard]] bool ended() const noexcept override { return inner_->ended(); }
    [[nodiscard]] peer_counters counters() const noexcept override { return inner_->counters(); }
    [[nodiscard]] peer_waits waits() const noexcept override { return inner_->waits(); }
    [[nodiscard]] std::uint64_t bytes(peer_message const& m) const noexcept override { return inner_->bytes(m); }
    [[nodiscard]] std::string agreement() const override { return inner_->agreement(); }

   private:
    std::unique_ptr<peer_node> inner_;
    std::shared_ptr<counts> steps_;
    worker_id next_;
  };
};
static_assert(peer_protocol<noting_nearness>);

}  // namespace rubato::test
