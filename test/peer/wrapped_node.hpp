// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <rubato/peer/peer_node.hpp>

namespace rubato::test {

/// Another node, and what a test does beside it.
class wrapped_node : public peer_node {
 public:
  explicit wrapped_node(std::unique_ptr<peer_node> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] peer_node& inner() const noexcept { return *inner_; }

  [[nodiscard]] bool deliver(worker_id from, peer_message&& m, outbox& out) override {
    return inner_->deliver(from, std::move(m), out);
  }
  void lose(worker_id w) override { inner_->lose(w); }
  void leave(outbox& out) override { inner_->leave(out); }
  [[nodiscard]] bool can_go_on() const noexcept override { return inner_->can_go_on(); }
  [[nodiscard]] shared_update share() const override { return inner_->share(); }

  void reset() override { inner_->reset(); }
  void begin(peer_endpoint& e, std::int64_t iterations) override { inner_->begin(e, iterations); }
  void step(peer_endpoint& e, std::span<std::byte const> gradient) override { inner_->step(e, gradient); }
  [[nodiscard]] std::span<std::byte const> parameters() const noexcept override { return inner_->parameters(); }
  [[nodiscard]] std::int64_t iteration() const noexcept override { return inner_->iteration(); }
  [[nodiscard]] bool ended() const noexcept override { return inner_->ended(); }
  [[nodiscard]] peer_counters counters() const noexcept override { return inner_->counters(); }
  [[nodiscard]] peer_waits waits() const noexcept override { return inner_->waits(); }

  [[nodiscard]] std::uint64_t bytes(peer_message const& m) const noexcept override { return inner_->bytes(m); }
  void use(std::shared_ptr<block_memory> const& memory) override { inner_->use(memory); }
  [[nodiscard]] bool sums() const noexcept override { return inner_->sums(); }
  [[nodiscard]] std::string agreement() const override { return inner_->agreement(); }

 private:
  std::unique_ptr<peer_node> inner_;
};

}  // namespace rubato::test
