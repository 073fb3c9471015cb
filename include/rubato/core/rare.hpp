// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

/// Marks a path that is seldom taken, by a name that says what has happened: a search through faults that never
/// comes there has not searched. Of code that only peers without a server run it begins with "peers: ". Counted where
/// RUBATO_CHECKS is defined, as in the tests; nothing elsewhere.
#if defined(RUBATO_CHECKS)
#define RUBATO_RARE(what) ::rubato::detail::rare_path<what>::counter.count()
#else
#define RUBATO_RARE(what) static_cast<void>(0)
#endif

namespace rubato {

/// How often a path has been taken that is marked as rare.
struct rare_count {
  std::string_view what;    ///< its mark
  std::uint64_t times = 0;  ///< in this process
};

namespace detail {

template <std::size_t N>
struct fixed_text {
  char letters[N];
  consteval fixed_text(char const (&text)[N]) {  // a literal is to convert
    for (std::size_t i = 0; i < N; ++i) letters[i] = text[i];
  }
};

/// All there are make a list, from before main() on: those that were never reached are to be known, too.
class rare_counter {
 public:
  explicit rare_counter(std::string_view what) noexcept : what_(what), next_(first) { first = this; }
  rare_counter(rare_counter const&) = delete;
  rare_counter& operator=(rare_counter const&) = delete;

  void count() noexcept { times_.fetch_add(1, std::memory_order_relaxed); }

  [[nodiscard]] static std::vector<rare_count> all() {
    std::vector<rare_count> counts;
    for (rare_counter const* c = first; c != nullptr; c = c->next_)
      counts.push_back({c->what_, c->times_.load(std::memory_order_relaxed)});
    return counts;
  }

 private:
  static inline rare_counter* first = nullptr;
  std::string_view what_;
  rare_counter* next_;
  std::atomic<std::uint64_t> times_ = 0;
};

template <fixed_text What>
struct rare_path {
  static inline rare_counter counter{What.letters};
};

}  // namespace detail

/// Every mark that is compiled into this program, in no order; none where the library was built without RUBATO_CHECKS.
/// Any thread.
[[nodiscard]] inline std::vector<rare_count> rare_paths() { return detail::rare_counter::all(); }

}  // namespace rubato
