// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/result/curve.hpp"
#include "rubato/net/mpi_network.hpp"

namespace rubato::bench {

/// What a worker says of itself.
struct progress_note {
  std::uint32_t worker = 0;
  std::uint32_t run = 0;
  std::uint64_t steps = 0;
  time_split spent{};
  bool is_done = false;
};

/// The same, and its parameters where it has sent them: a peer's.
struct heard_note {
  progress_note note;
  std::vector<float> parameters;
};

/// How the ranks of a job work through runs that rank 0 decides on: it sends orders to all, worker 0 sends it results,
/// and all others tell worker 0 how far they are.
class crew {
 public:
  /// Collective. @throws process_failure when one is not there in time
  explicit crew(std::uint32_t servers);
  crew(crew const&) = delete;
  crew& operator=(crew const&) = delete;
  ~crew();

  [[nodiscard]] bool leads() const noexcept { return self_.number == 0; }
  [[nodiscard]] bool is_first_worker() const noexcept { return self_.number == first_worker_; }

  // rank 0
  void order(std::string const& text);
  /// Of the run that has been ordered last. @throws process_failure when somebody leaves before
  [[nodiscard]] std::string result();

  /// The next one; nothing when rank 0 has left. For other ranks.
  [[nodiscard]] std::optional<std::string> next_order();
  /// By worker 0.
  void report(std::string const& text);
  /// By other workers.
  void tell(progress_note const& note, std::span<float const> parameters = {});
  /// What these have said, in worker 0.
  void hear(std::function<void(heard_note const&)> const& each);

 private:
  class wire_end;

  [[nodiscard]] std::unique_ptr<wire_end> dial(std::uint32_t rank, std::uint16_t number);
  template <class Condition>
  void wait_until(Condition done, net::network::clock::time_point deadline);

  net::mpi_rank self_;
  std::uint32_t first_worker_;
  net::mpi_network network_;
  std::unique_ptr<net::listener> listener_;
  std::vector<std::unique_ptr<wire_end>> ends_;  ///< of those who have dialed
  std::unique_ptr<wire_end> leader_, worker_;    ///< of rank 0 and worker 0
  std::deque<std::string> texts_;       ///< orders or results that have come
  std::vector<heard_note> notes_;
  std::optional<std::string> gone_;     ///< why somebody is
};

}  // namespace rubato::bench
