// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "rubato/core/time.hpp"
#include "rubato/server/blueprint.hpp"
#include "rubato/transport/processes/question.hpp"
#include "rubato/transport/processes/read_question.hpp"
#include "rubato/worker/inquiry.hpp"
#include "rubato/worker/server_fetch.hpp"

namespace rubato::detail {

/// Brings a process's fetches to servers as questions over its links.
class link_fetcher final : public server_fetcher {
 public:
  /// @param plan and `links` outlive this @param sparse_max see `tcp` @param now the clock of the run's workers
  link_fetcher(blueprint const& plan, server_asker& links, std::uint64_t sparse_max, std::function<time_point()> now)
      : plan_(plan), links_(links), sparse_max_(sparse_max), now_(std::move(now)) {}

  void ask(server_fetch& f) override { links_.ask(f.server, question_for(f)); }
  void ask_in_turn(server_fetch& f) override { links_.ask_in_turn(f.server, question_for(f)); }
  void withdraw_all() override { links_.withdraw(asked_); }

 private:
  struct fetch_question final : read_question, fetch_carrier {
    fetch_question(link_fetcher& by, server_fetch& f)
        : read_question(by.plan_, f.table, f.server, by.sparse_max_), fetch(f) {
      f.slot.arrived = f.slot.admitted = by.now_();
      renew(f.read, f.slot, by.asked_);
    }
    void done(refusal why) override {
      if (why == refusal::none) decode();
      asker->missing.fetch_sub(1, std::memory_order_relaxed);
      fetch.done(why);  // this is gone with it
    }
    server_fetch& fetch;
  };

  fetch_question& question_for(server_fetch& f) {
    auto made = std::make_unique<fetch_question>(*this, f);
    fetch_question& q = *made;
    f.carrier = std::move(made);
    return q;
  }

  blueprint const& plan_;
  server_asker& links_;
  std::uint64_t sparse_max_;
  std::function<time_point()> now_;
  inquiry asked_;  ///< of all fetches; nobody waits for it
};

}  // namespace rubato::detail
