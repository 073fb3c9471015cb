// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rubato/net/deployment.hpp"
#include "rubato/net/link.hpp"
#include "rubato/net/network.hpp"
#include "rubato/transport/processes/arena_view.hpp"
#include "rubato/transport/processes/enrolled_links.hpp"
#include "rubato/transport/processes/network_turn.hpp"
#include "rubato/transport/processes/question.hpp"
#include "rubato/transport/processes/update_memory.hpp"
#include "rubato/wire/messages.hpp"

namespace rubato::detail {

/// What a worker process has beside its workers: links to the servers.
class worker_links final : public enrolled_links, public server_asker, net::link_user {
 public:
  class user : public enrolled_links::user {
   public:
    /// A commit of this worker was refused.
    virtual void commit_refused(worker_id w, stage_id stage, server_id by, refusal why) = 0;
  };

  /// Joins the run: returns when the coordinator has given this process its number, and servers
  /// their addresses. @throws lost_error, or error with errc::refused
  /// @param background links are served by a thread of their own while no worker waits
  worker_links(user& of, std::unique_ptr<net::network> network, net::deployment const& place, std::string agreed,
              bool background = false);
  ~worker_links() override;

  /// From here on large updates of these tables lie where servers on this machine may look at them, if there are any
  /// and memory is shared. @param workers of this process
  void lend(blueprint const& plan, std::uint32_t workers);
  /// Where this server finds updates; null where it does not look. Any thread.
  [[nodiscard]] update_memory const* seen_by(server_id s) const noexcept {
    return servers_[s.index()]->sees.load(std::memory_order_acquire) ? lent_.get() : nullptr;
  }

  /// Sends a commit. Waits while too much is under way.
  void post(server_id s, std::shared_ptr<net::reliable_frame const> frame);
  /// Sends a frame that is to arrive before anything else happens, and waits until it has.
  void post_and_wait(server_id s, std::shared_ptr<net::reliable_frame const> frame);
  /// Waits until all that was posted has arrived, or never will.
  void settle();
  /// Asks a server; `asker` misses one answer more until it is there. Nothing is sent before `start`, or `wait_for`.
  void ask(server_id s, question& q) override;
  /// The same for whoever has the turn, as in `question::done`.
  void ask_in_turn(server_id s, question& q) override;
  /// A question, and whom it is for.
  struct addressed {
    server_id to;
    question* what;
  };
  /// Asks these, and sends what has been asked.
  void start(std::span<addressed const> questions);
  /// The same, and waits until nothing is missing, or until `stop()` holds: then whoever waited withdraws the rest.
  /// Returns whether all was answered.
  template <class Stop>
  [[nodiscard]] bool wait_for(inquiry& asked, Stop stop, std::span<addressed const> questions = {}) {
    auto const complete = [&] { return asked.missing.load(std::memory_order_acquire) == 0; };
    turns().wait_after([&] { start_in_turn(questions); }, [&] { return complete() || is_broken() || stop(); });
    return complete();
  }
  /// Throws what a question was refused for.
  [[noreturn]] void raise(refusal why);
  /// Nothing is written into the asker's memory from now on.
  void withdraw(inquiry& asked) override;
  /// For tests: breaks the connection to a server.
  void cut(server_id s);

 private:
  struct server {
    server(worker_links& of, server_id s, std::string who)
        : id(s), link(of.network(), of, of.limits_to(net::role::server, s.value()), std::move(who)) {}
    server_id id;
    net::link link;
    std::vector<question*> asked;    ///< and not answered, in the order of asking
    question* answering = nullptr;   ///< its answer is being written
    bool too_large = false;          ///< the answer that is arriving
    clock::time_point posted{};
    /// What it reads in this process's memory, in the order of posting.
    struct lent_frame {
      std::uint64_t number;
      std::shared_ptr<net::reliable_frame const> frame;
    };
    std::deque<lent_frame> lent;
    std::uint64_t returned = 0;      ///< the number of one of them, as it arrives
    std::unique_ptr<arena_view> memory;  ///< of that server, if this process can see it
    wire::memory_meta offered{};         ///< as it has been told of
    std::uint64_t unwanted = 0;          ///< the pin of an answer that nobody waits for
    std::vector<std::uint64_t> read;     ///< pins of answers that are to be released
    int changed = 0;                     ///< answers in a row that changed before they had been read
    // For those who wait while another thread has the turn:
    std::atomic<bool> full = false;
    std::atomic<bool> sees = false;  ///< it has said that it can read updates where they lie
    std::atomic<std::uint64_t> arrived = 0;  ///< frames of those that were posted

    /// `waits_for_sending`: nobody but those who post sends.
    void note(bool waits_for_sending) noexcept;
  };

  [[nodiscard]] server& server_of(net::link& l);
  void start_in_turn(std::span<addressed const> questions);
  void keep_up() override;
  void connect_to_servers();
  [[nodiscard]] question* find(server& s, std::uint64_t ticket) const;
  void begin_answer(server& s, wire::frame_header const& header, std::span<std::byte const> meta,
                    std::vector<std::span<std::byte>>& body);
  void discard(wire::frame_header const& header, std::vector<std::span<std::byte>>& body);
  void answered(server& s, wire::frame_header const& header, refusal why);
  void see_memory(server& s);
  void offer(server& s);
  void take_back(server& s);
  void release_read(server& s);

  // link_user
  void begin(net::link& from, wire::frame_header const& header, std::span<std::byte const> meta,
             std::vector<std::span<std::byte>>& body) override;
  void end(net::link& from, wire::frame_header const& header) override;
  void drained(net::link& from) override;
  void writable(net::link& from) override { drained(from); }
  void resumed(net::link& from) override;
  void broken(net::link& from, std::string const& reason) override;
  void lost(net::link& from, std::string const& reason, bool expected) override;

  user& user_;
  std::shared_ptr<update_memory> lent_;  ///< null where there is none
  std::vector<std::unique_ptr<server>> servers_;
  std::uint64_t tickets_ = 0;
  std::vector<std::byte> waste_;  ///< where answers go that nobody waits for any more
  wire::refused_meta refused_{};
  std::string why_too_large_;     ///< the last answer that was
  std::atomic<bool> gathering_ = false;  ///< small commits follow each other: the keeper looks often
  std::atomic<bool> unflushed_ = false;  ///< some wait to be joined by others
};

}  // namespace rubato::detail
