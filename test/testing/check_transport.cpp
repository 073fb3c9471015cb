// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/testing/check_transport.hpp>
//
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <rubato/server/messages.hpp>
#include <rubato/server/read_slot.hpp>
#include <rubato/transport/concepts.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>
#include <rubato/worker/endpoint.hpp>
#include <string>
#include <utility>
#include <vector>

#include "testing/says.hpp"

using namespace rubato;
using test::says;
using testing::sentences;

namespace {

simulated const three_workers{.workers = 3, .servers = 2};
testing::transport_check const briefly{.workers = 3, .servers = 2, .schedules = 2};

/// What the check says of a transport whose endpoints have a fault. It is simulated, where a worker that
/// waits for ever is found out.
template <class Faulty>
sentences check_with() {
  return testing::check_transport(
      decorated{three_workers,
                [](endpoint& inner, worker_id) { return std::make_unique<Faulty>(inner); }},
      briefly);
}

struct faultless : endpoint_decorator {
  using endpoint_decorator::endpoint_decorator;
};

struct that_loses_commits : endpoint_decorator {
  using endpoint_decorator::endpoint_decorator;
  void post(server_id to, commit_message&& commit) override {
    if (++posts != 9) inner().post(to, std::move(commit));
  }
  int posts = 0;
};

/// Leaves out what a commit says of its first table.
struct that_empties_commits : endpoint_decorator {
  using endpoint_decorator::endpoint_decorator;
  void post(server_id to, commit_message&& commit) override {
    if (++posts % 5 == 0) commit.parts[0] = {};
    inner().post(to, std::move(commit));
  }
  int posts = 0;
};

struct that_reads_too_early : endpoint_decorator {
  using endpoint_decorator::endpoint_decorator;
  void request(server_id to, std::size_t table, read_header const& read, read_slot& slot) override {
    read_header laxer = read;
    laxer.clock = clock_index{0};
    inner().request(to, table, laxer, slot);
  }
};

/// Of what is asked of a server together, the first two get each other's answers.
struct that_mixes_up_answers : endpoint_decorator {
  using endpoint_decorator::endpoint_decorator;
  void request(server_id to, std::size_t table, read_header const& read, read_slot& slot) override {
    if (to == server_id{0}) asked.push_back(&slot);
    inner().request(to, table, read, slot);
  }
  void wait() override {
    inner().wait();
    if (asked.size() > 1) swap(asked[0]->state, asked[1]->state);
    asked.clear();
  }
  std::vector<read_slot*> asked;
};

struct whose_time_goes_back : endpoint_decorator {
  using endpoint_decorator::endpoint_decorator;
  [[nodiscard]] time_point now() const override {
    return time_point{} + std::chrono::hours(1) - std::chrono::seconds(++calls);
  }
  mutable int calls = 0;
};

struct that_does_not_pause : endpoint_decorator {
  using endpoint_decorator::endpoint_decorator;
  void pause(time_point) override {}
};

struct that_keeps_orders : endpoint_decorator {
  using endpoint_decorator::endpoint_decorator;
  [[nodiscard]] std::optional<conductor::order> take_order() override { return std::nullopt; }
};

struct that_tells_no_conductor : endpoint_decorator {
  using endpoint_decorator::endpoint_decorator;
  void report_commit(clock_index) override {}
  void report_loss(double) override {}
};

/// A runtime that does what another one does.
class runtime_decorator : public runtime {
 public:
  explicit runtime_decorator(std::unique_ptr<runtime> inner) : inner_(std::move(inner)) {}
  run_report run(run_request request) override {
    return inner_->run(std::move(request));
  }
  std::uint32_t add_worker() override { return inner_->add_worker(); }
  void stop() override { inner_->stop(); }
  [[nodiscard]] time_point now() const override { return inner_->now(); }
  [[nodiscard]] std::uint32_t workers() const noexcept override { return inner_->workers(); }
  void read_whole(std::size_t table, std::byte* out) const override { inner_->read_whole(table, out); }
  void read_touched(std::size_t table, std::vector<std::uint64_t>& keys,
                    raw_array& values) const override {
    inner_->read_touched(table, keys, values);
  }
  [[nodiscard]] std::uint64_t updates() const override { return inner_->updates(); }
  [[nodiscard]] server_group const& servers() const override { return inner_->servers(); }

 private:
  std::unique_ptr<runtime> inner_;
};

struct that_hides_failures : runtime_decorator {
  using runtime_decorator::runtime_decorator;
  run_report run(run_request request) override {
    try {
      return runtime_decorator::run(std::move(request));
    } catch (std::runtime_error const&) {
      return {};
    }
  }
};

struct that_forgets_a_worker : runtime_decorator {
  using runtime_decorator::runtime_decorator;
  run_report run(run_request request) override {
    run_report r = runtime_decorator::run(std::move(request));
    if (!r.workers.empty()) r.workers.pop_back();  // of one that was not begun there are none
    return r;
  }
};

/// Whose workers have measured something else than what was.
template <int Compute, int Send, int Wait>
struct that_reports_hours : runtime_decorator {
  using runtime_decorator::runtime_decorator;
  run_report run(run_request request) override {
    run_report r = runtime_decorator::run(std::move(request));
    for (worker_metrics& m : r.workers) {
      m.compute = std::chrono::hours(Compute);
      m.send = std::chrono::hours(Send);
      m.wait = std::chrono::hours(Wait);
    }
    return r;
  }
};

struct that_hides_stops : runtime_decorator {
  using runtime_decorator::runtime_decorator;
  run_report run(run_request request) override {
    run_report r = runtime_decorator::run(std::move(request));
    r.stopped = false;
    return r;
  }
};

struct that_hears_of_no_early_stop : runtime_decorator {
  using runtime_decorator::runtime_decorator;
  run_report run(run_request request) override {
    request.stop_asked = nullptr;
    return runtime_decorator::run(std::move(request));
  }
};

struct that_asks_for_no_loss : runtime_decorator {
  using runtime_decorator::runtime_decorator;
  run_report run(run_request request) override {
    request.loss = {};
    return runtime_decorator::run(std::move(request));
  }
};

struct that_numbers_joiners_from_0 : runtime_decorator {
  using runtime_decorator::runtime_decorator;
  std::uint32_t add_worker() override { return runtime_decorator::add_worker() - 3; }
};

/// A transport that makes such a runtime.
template <class Runtime>
struct wrapped {
  using runtime_type = Runtime;
  [[nodiscard]] std::unique_ptr<Runtime> open(run_setup setup) const {
    return std::make_unique<Runtime>(three_workers.open(std::move(setup)));
  }
};

}  // namespace

TEST_CASE("check_transport accepts what is shipped", "[testing][threads]") {
  CHECK(testing::check_transport(in_process{.workers = 3, .servers = 2}, briefly) == sentences{});
  CHECK(testing::check_transport(in_process{.workers = 3, .servers = 2, .process_cache = true}, briefly) ==
        sentences{});
  CHECK(testing::check_transport(three_workers, briefly) == sentences{});
  CHECK(testing::check_transport(wrapped<runtime_decorator>{}, briefly) == sentences{});
  CHECK(check_with<faultless>() == sentences{});
}

TEST_CASE("check_transport catches an endpoint that does not do what it should", "[testing]") {
  CHECK(says(check_with<that_loses_commits>(), "two runs"));
  CHECK(says(check_with<that_empties_commits>(), "but has pushed"));
  CHECK(says(check_with<that_reads_too_early>(), "bsp, schedule"));
  CHECK(says(check_with<that_mixes_up_answers>(), "of tables that were asked for together"));
  CHECK(says(check_with<whose_time_goes_back>(), "now() goes back"));
  CHECK(says(check_with<that_does_not_pause>(), "until their commits were due went on before 12 times"));
  CHECK(says(check_with<that_keeps_orders>(), "orders of a conductor reached 0 workers of 3"));
  auto const untold = check_with<that_tells_no_conductor>();
  CHECK(says(untold, "a conductor hears of no commit"));
  CHECK(says(untold, "a conductor hears of no loss that workers report"));
}

TEST_CASE("check_transport catches a runtime that does not do what it should", "[testing]") {
  CHECK(says(testing::check_transport(wrapped<that_hides_failures>{}, briefly), "a body threw"));
  CHECK(says(testing::check_transport(wrapped<that_forgets_a_worker>{}, briefly),
             "reports 2 workers, expected 3"));
  CHECK(says(testing::check_transport(wrapped<that_numbers_joiners_from_0>{}, briefly),
             "the first joiner has rank 0, expected 3"));
  CHECK(says(testing::check_transport(wrapped<that_reports_hours<-1, -3, 4>>{}, briefly),
             "reports -3600 s of compute, -10800 s of send and 14400 s of wait"));
  CHECK(says(testing::check_transport(wrapped<that_reports_hours<1, 2, 3>>{}, briefly), "reports 21600 s of compute"));
  CHECK(says(testing::check_transport(wrapped<that_hides_stops>{}, briefly), "a run that was stopped reports"));
  CHECK(says(testing::check_transport(wrapped<that_hears_of_no_early_stop>{}, briefly),
             "(`stop_asked`) does not report"));
  CHECK(says(testing::check_transport(wrapped<that_asks_for_no_loss>{}, briefly),
             "is not told what the run's function says"));
}
