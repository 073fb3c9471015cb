// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "rubato/transport/order_box.hpp"
#include "rubato/transport/processes/read_question.hpp"
#include "rubato/transport/processes/worker_links.hpp"
#include "rubato/wire/control.hpp"
#include "rubato/worker/endpoint.hpp"
#include "rubato/worker/inquiry.hpp"

namespace rubato::detail {

class worker_process;

/// The end of a worker that is a thread of one process among others: asks the servers itself, or through
/// the cache that it shares with the other workers of its process.
class process_endpoint final : public endpoint {
 public:
  process_endpoint(worker_process& run, sender const& self);

  void post(server_id to, commit_message&& commit) override;
  void request(server_id to, std::size_t table, read_header const& read, read_slot& slot) override;
  void start() override;
  void wait() override;
  [[nodiscard]] time_point now() const override;
  /// Compute has taken its own time.
  void charge(double) override { checkpoint(); }
  void pause(time_point until) override;
  void checkpoint() override;
  void request_cut(read_header const& read, cut_slot& slot) override;
  void release_cut() override;
  void report_commit(clock_index now_at) override;
  void report_loss(double loss) override;
  [[nodiscard]] std::optional<conductor::order> take_order() override;
  [[nodiscard]] bool scatters() const noexcept override;
  [[nodiscard]] bool shares_reads() const noexcept override;

  // ---- called by others

  /// It takes part from this clock on.
  void enlist(clock_index at);
  /// It waits for nothing any more.
  void withdraw();
  void give(conductor::order const& order);
  void grant(wire::cut_grant const& m);

 private:
  template <class F>
  void asking(F f);
  void report(pace_report const& said);

  worker_process& run_;
  sender self_;
  std::optional<std::size_t> reader_;  ///< of the process cache, from its start on
  inquiry asked_;
  cut_slot* cut_ = nullptr;  ///< asked of the coordinator; touched in one's turn
  read_questions questions_;
  std::vector<worker_links::addressed> unasked_;  ///< until it waits, or is not to wait soon: in one turn
  order_box orders_;
};

}  // namespace rubato::detail
