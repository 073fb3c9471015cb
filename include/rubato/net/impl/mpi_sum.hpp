// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rubato/core/element.hpp"
#include "rubato/core/raw_array.hpp"
#include "rubato/net/collective.hpp"
#include "rubato/net/impl/mpi_desk.hpp"
#include "rubato/net/impl/mpi_world.hpp"

namespace rubato::net::detail {

/// What is behind a collective of all ranks but the first: sums by MPI_Iallreduce, on a communicator of its own.
///
/// MPI takes no collective back, and counts them: what one rank has begun all others have to begin, whatever has become
/// of their runs. So each rank gives, behind its numbers, a mark for itself, 0 as long as it takes part, and in a
/// session's last sum, which is the first one with a mark that is not 0, at all ranks alike, those that have left take
/// part with their mark. Whose owner has gone goes on by itself up to a sum with a mark that says `for_good`, after
/// which nobody begins another one.
class mpi_sum final : public mpi_traffic, public mpi_world::lasting, public std::enable_shared_from_this<mpi_sum> {
 public:
  /// All ranks but the first make it, in the same order as others. @throws error (errc::io) without memory for it
  mpi_sum(mpi_desk& desk, element_type element, std::size_t size);
  mpi_sum(mpi_sum const&) = delete;
  mpi_sum& operator=(mpi_sum const&) = delete;
  ~mpi_sum() = default;

  /// Begins to make the communicator.
  void join() { be_busy(); }
  void begin();
  void sum(std::span<std::byte const> mine, std::function<void()> done);
  [[nodiscard]] collective::outcome result() const;
  void leave(collective::leaving why);
  [[nodiscard]] bool is_at_rest() const noexcept { return at_rest_.load(std::memory_order_acquire); }
  /// Its owner has gone, and the desk may be next.
  void part() noexcept;

  [[nodiscard]] movement go_on() override;
  [[nodiscard]] bool ends() override;

 private:
  static constexpr std::uint8_t takes_part = 0;

  [[nodiscard]] std::size_t bytes() const noexcept { return size_ * size_of(element_); }
  [[nodiscard]] bool has_joined();
  [[nodiscard]] bool is_under_way() const noexcept { return !parts_.empty(); }
  [[nodiscard]] bool wants_to_give() const noexcept {
    return !over_for_good_ && (leaves_for_good() || (!session_over_ && (waits_ || mark_ != takes_part)));
  }
  [[nodiscard]] bool leaves_for_good() const noexcept {
    return mark_ == static_cast<std::uint8_t>(collective::leaving::for_good);
  }
  [[nodiscard]] bool advance();
  void give();
  void read_marks();
  void be_busy();

  mpi_desk& desk_;  ///< until its owner has gone
  mpi_world& world_;
  element_type element_;
  std::size_t size_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::int32_t place_ = 0;  ///< in the queue of those that are to join
  MPI_Request joining_ = MPI_REQUEST_NULL;
  bool joined_ = false;
  std::vector<MPI_Request> parts_;  ///< of the sum under way
  raw_array mine_, total_;          ///< and a mark for each member
  std::function<void()> done_;
  bool waits_ = false;         ///< `done_` has not been called
  bool gave_ = false;          ///< of what waits
  std::uint8_t mark_ = takes_part;
  std::vector<std::uint8_t> marks_;  ///< that came with the last sum
  bool session_over_ = true;
  bool over_for_good_ = false;
  std::atomic<bool> at_rest_ = true;
  std::optional<std::string> failure_;  ///< MPI's
  bool busy_ = false;  ///< the desk looks after it
  bool parted_ = false;
};

}  // namespace rubato::net::detail
