// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "peer/searched_peer.hpp"

namespace rubato::test {

/// All that was seen under way in a channel, by number; 0 is nothing.
class message_sequences {
 public:
  using id = searched_peer::id;

  message_sequences() { (void)intern({}); }

  [[nodiscard]] std::string const& messages(id s) const { return sequences_[s].messages; }
  [[nodiscard]] code at(id s, std::size_t n) const { return static_cast<code>(sequences_[s].messages[n]); }
  [[nodiscard]] std::int64_t tokens(id s) const { return sequences_[s].tokens; }

  id without_first(id s) {
    if (sequences_[s].without_first == searched_peer::none) {
      id const rest = intern(sequences_[s].messages.substr(1));
      sequences_[s].without_first = rest;
    }
    return sequences_[s].without_first;
  }
  id with(id s, code c) {
    auto const [at, is_new] =
        longer_.try_emplace(static_cast<std::uint64_t>(s) * 256 + c, searched_peer::none);
    if (is_new) at->second = intern(sequences_[s].messages + static_cast<char>(c));
    return at->second;
  }

 private:
  struct sequence {
    std::string messages;
    std::int64_t tokens = 0;
    id without_first = searched_peer::none;
  };

  id intern(std::string const& messages) {
    auto const [at, is_new] = ids_.try_emplace(messages, static_cast<id>(sequences_.size()));
    if (is_new) {
      sequence s{messages};
      for (char const m : messages)
        if (static_cast<code>(m) / 64 == +hop_kind::tokens) s.tokens += static_cast<code>(m) % 64;
      sequences_.push_back(std::move(s));
    }
    return at->second;
  }

  std::vector<sequence> sequences_;
  std::unordered_map<std::string, id> ids_;
  std::unordered_map<std::uint64_t, id> longer_;  ///< by sequence and message
};

}  // namespace rubato::test
