// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <optional>

#include <rubato/worker/endpoint.hpp>

namespace rubato::test {

/// Does nothing of what a worker asks for, at once. Of what matters to it a test has another one.
class idle_endpoint : public endpoint {
 public:
  void post(server_id, commit_message&&) override {}
  void request(server_id, std::size_t, read_header const&, read_slot&) override {}
  void wait() override {}
  [[nodiscard]] time_point now() const override { return {}; }
  void charge(double) override {}
  void pause(time_point) override {}
  void checkpoint() override {}
  void request_cut(read_header const&, cut_slot&) override {}
  void release_cut() override {}
  void report_commit(clock_index) override {}
  void report_loss(double) override {}
  [[nodiscard]] std::optional<conductor::order> take_order() override { return std::nullopt; }
};

}  // namespace rubato::test
