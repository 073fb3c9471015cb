// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

// C++ bindings of MPI 2, which nobody uses, are not wanted.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "rubato/core/element.hpp"

namespace rubato::net::detail {

/// What ranks say to each other about connections, with the tag `mpi_world::control_tag`. Each end of a connection
/// is named by a tag of its own rank, with which all its messages come.
struct mpi_control {
  enum class kind : std::uint32_t { dial = 1, accepted, nobody, full };

  std::uint32_t magic = 0;
  kind what = kind::dial;
  std::uint32_t number = 0;  ///< of the listener that is dialed
  std::int32_t from = 0;     ///< the sender's end
  std::int32_t to = 0;       ///< the end that is answered
};

class mpi_desk;

/// MPI as the networks of this process share it: communicators of their own, and whose is what comes. All but `get`,
/// `rank` and `count` with `mutex` held.
///
/// A message of at most `small_max` bytes is received by a receive of whatever comes, the same again and again:
/// nothing costs less. A larger one is announced by a small one, travels on a communicator of its own, and is received
/// where it is wanted.
class mpi_world {
 public:
  /// An end of a connection.
  class end {
   public:
    /// Reads it now, or keeps it for later; none are the end. With the mutex held.
    /// @param by whose thread this is; null: no network's
    virtual void come(std::span<std::byte const> bytes, mpi_desk const* by) = 0;
    /// A large message of so many bytes waits to be received.
    virtual void come_large(std::size_t bytes) = 0;
    virtual void answered(mpi_control const& said) = 0;

   protected:
    ~end() = default;
  };
  class door {
   public:
    virtual void called(int source, mpi_control const& said) = 0;

   protected:
    ~door() = default;
  };

  /// What goes on when its owner has gone.
  class lasting {
   public:
    /// Goes on. Whether it has come to its end; with the mutex held.
    [[nodiscard]] virtual bool ends() = 0;

   protected:
    ~lasting() = default;

   private:
    friend class mpi_world;
    std::shared_ptr<lasting> next_;  ///< of those that go on
  };

  static constexpr int control_tag = 0;
  static constexpr std::size_t small_max = 16 * 1024;               ///< bytes
  static constexpr std::size_t message_max = std::size_t{1} << 24;  ///< bytes; what is longer nobody here sends

  /// What has to come to its end before the memory of a message can be used again.
  struct sent {
    MPI_Request message = MPI_REQUEST_NULL;
    MPI_Request announcement = MPI_REQUEST_NULL;
    std::uint64_t announced = 0;
  };

  /// @throws option_error where there can be none
  [[nodiscard]] static mpi_world& get();
  mpi_world(mpi_world const&) = delete;
  mpi_world& operator=(mpi_world const&) = delete;
  ~mpi_world();

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int count() const noexcept { return count_; }
  /// Whether there are more ranks on this machine than processors, so that who waits keeps another one waiting.
  [[nodiscard]] bool is_crowded() const noexcept { return crowded_; }
  [[nodiscard]] std::mutex& mutex() noexcept { return mutex_; }

  // with the mutex held
  void enter() noexcept { ++networks_; }
  void leave() noexcept { --networks_; }
  /// A tag for an end that talks to this rank.
  [[nodiscard]] int add(end& e, int source);
  void remove(int tag) noexcept { ends_.erase(tag); }
  /// A number for a door, this one unless it is 0. @throws error (errc::io) where it is taken
  [[nodiscard]] std::uint16_t add(door& d, std::uint16_t number);
  void remove(std::uint16_t number) noexcept { doors_.erase(number); }

  /// Takes one message that has come, and gives it to whom it is for. Returns whether there was one.
  bool take_one(mpi_desk const* by = nullptr);
  /// @throws error (errc::io), as all that follow
  /// @param how stays where it is until all of it is over
  void send(int to, int tag, std::span<std::byte const> bytes, sent& how);
  void tell(int to, mpi_control said);
  /// Nothing more comes from this end.
  void send_end(int to, int tag);
  /// The first large message that waits for the end with this tag, of as many bytes.
  [[nodiscard]] MPI_Request receive(int from, int tag, std::span<std::byte> into);
  /// Whether it is over; then it is null.
  [[nodiscard]] bool test(MPI_Request& request);
  [[nodiscard]] bool test(sent& how) { return (how.announced == 0 || test(how.announcement)) && test(how.message); }
  /// Receives the same, and keeps nothing.
  void drop(int from, int tag, std::size_t bytes);
  /// Keeps this alive until all are over.
  void linger(std::vector<MPI_Request> requests, std::shared_ptr<void const> what);
  /// Lets it go on by itself, which takes no memory.
  void linger(std::shared_ptr<lasting> what) noexcept {
    what->next_ = std::exchange(lasting_, nullptr);
    lasting_ = std::move(what);
  }
  [[nodiscard]] bool has_lingering() const noexcept { return !lingering_.empty() || lasting_ != nullptr; }
  /// Gives what has lingered to its end, to be destroyed without the mutex.
  [[nodiscard]] std::vector<std::shared_ptr<void const>> tidy();

  // sums of all ranks but the first, by those alone
  [[nodiscard]] std::uint32_t others() const noexcept { return static_cast<std::uint32_t>(count_ - 1); }
  [[nodiscard]] std::size_t number_among_others() const noexcept { return static_cast<std::size_t>(rank_ - 1); }
  /// A place in the order in which communicators of theirs are made. @throws option_error for the first rank
  [[nodiscard]] std::int32_t queue_up();
  /// One after the other, since the messages by which Open MPI makes one are taken for those of another one under way.
  [[nodiscard]] bool is_next(std::int32_t place) const noexcept { return place == joined_; }
  /// Begins to make the next one, which is there when the request is over; then `joined` is to be called.
  [[nodiscard]] MPI_Request join_others(MPI_Comm& made);
  void joined() noexcept { ++joined_; }
  void leave_others(MPI_Comm& made);
  /// Begins to add up element by element. Of as many requests at each rank.
  void sum_among_others(MPI_Comm among, element_type element, std::span<std::byte const> mine,
                        std::span<std::byte> total, std::vector<MPI_Request>& requests);

 private:
  struct lingering {
    std::vector<MPI_Request> requests;
    std::shared_ptr<void const> what;
  };
  struct known_end {
    end* to;
    int source;
  };

  mpi_world();
  [[nodiscard]] MPI_Request start(int to, int tag, std::span<std::byte const> bytes, MPI_Comm over);
  void hand_out(MPI_Status const& from, std::span<std::byte const> bytes, mpi_desk const* by);
  void take_large(int source, int tag, std::span<std::byte const> announcement);
  void take_control(int source, std::span<std::byte const> bytes);
  void finish();
  void finish_sums();
  template <class Done>
  void look_until(Done done);
  static int on_finalize(MPI_Comm, int, void* world, void*) noexcept;

  std::mutex mutex_;
  MPI_Comm comm_ = MPI_COMM_NULL;    ///< of small messages
  MPI_Comm large_ = MPI_COMM_NULL;
  std::vector<std::byte> inbox_;     ///< where the next small one comes
  MPI_Request ready_ = MPI_REQUEST_NULL;  ///< to receive it
  bool receives_ = false;            ///< that has begun
  MPI_Comm others_ = MPI_COMM_NULL;  ///< all but the first
  std::int32_t places_ = 0;          ///< given out so far
  std::int32_t joined_ = 0;          ///< of these, that have been made
  int rank_ = 0;
  int count_ = 1;
  int tag_max_ = 32767;
  int next_tag_ = control_tag;
  bool crowded_ = false;
  bool initialized_here_ = false;
  bool over_ = false;
  int networks_ = 0;
  std::uint16_t next_number_ = 32768;
  std::map<int, known_end> ends_;
  std::map<std::uint16_t, door*> doors_;
  std::list<lingering> lingering_;
  std::shared_ptr<lasting> lasting_;  ///< the first of them
};

}  // namespace rubato::net::detail
