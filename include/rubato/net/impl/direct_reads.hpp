// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <vector>

#include <boost/asio/execution_context.hpp>

namespace rubato::net {

/// The sockets of a context, as far as they may be read before the system tells of them.
///
/// To ask the system which sockets have something, to read, and to find that there is no more are three system calls
/// where one does; so who looks for what has come tries the sockets themselves. That pays for few sockets, and where
/// nothing else is waited for that only the system tells of: room to write, the rest of a large body, TLS.
/// Belongs to its context's thread, and is found by `boost::asio::use_service`.
class direct_reads final : public boost::asio::execution_context::service {
 public:
  inline static boost::asio::execution_context::id id;  ///< that Asio finds it by

  /// One socket.
  class reader {
   public:
    virtual ~reader() = default;
    /// Reads what is there and tells the user; false where nothing is, or nobody wants it.
    virtual bool try_to_read() = 0;
    /// The context goes: the user is told of nothing more, and let go.
    virtual void forget_user() noexcept = 0;

   private:
    friend direct_reads;
    int vain_tries_ = 0;  // in a row
  };

  /// Something that only the system tells of is waited for, as long as this is there.
  class other {
   public:
    explicit other(direct_reads& of) noexcept : of_(&of) { ++of_->others_; }
    other(other&& from) noexcept : of_(from.of_) { ++of_->others_; }
    other& operator=(other&&) = delete;
    ~other() { --of_->others_; }

   private:
    direct_reads* of_;
  };

  explicit direct_reads(boost::asio::execution_context& of) : service(of) {}

  void add(reader& r) { all_.push_back(&r); }
  void remove(reader& r) noexcept { std::erase(all_, &r); }

  /// Whether to try them pays.
  [[nodiscard]] bool pays() const noexcept { return others_ == 0 && all_.size() <= most; }
  /// Reads one of them, if it pays and any has something; they take turns. Of one that has had nothing for long the
  /// system tells.
  bool read_one() {
    if (!pays()) return false;
    for (std::size_t i = all_.size(); i > 0; --i) {
      reader& r = *all_[++turn_ % all_.size()];
      if (r.vain_tries_ == vain_tries_max) continue;
      ++r.vain_tries_;
      if (!r.try_to_read()) continue;  // else it may be gone
      return true;
    }
    return false;
  }
  /// This one has been read, by whomever.
  void note_read(reader& r) noexcept { r.vain_tries_ = 0; }

 private:
  // A process's server and its coordinator. Of three, peers and all, an `all_reduce` of 256 KB took a tenth longer.
  static constexpr std::size_t most = 2;
  static constexpr int vain_tries_max = 32;

  void shutdown() noexcept override {
    while (!all_.empty()) {
      reader* const last = all_.back();
      all_.pop_back();
      last->forget_user();
    }
  }

  std::vector<reader*> all_;
  std::size_t turn_ = 0;
  std::size_t others_ = 0;
};

}  // namespace rubato::net
