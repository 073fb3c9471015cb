// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <rubato/transport/processes/server_process.hpp>

namespace rubato::test {

/// What a server keeps for its worker processes, as seen from outside after each event: what it does not take is to
/// leave nothing behind.
class server_memory {
 public:
  /// What is wrong, if anything. `is_row(row)`: whether any commit has ever named it. `all_are_there`: whether what
  /// was named by a commit that the server took is in a table by now, or held back for it.
  template <class IsRow>
  [[nodiscard]] std::optional<std::string> look(detail::server_process const& s, IsRow is_row, bool all_are_there) {
    std::optional<std::string> wrong;
    s.for_each_arriving([&](std::uint32_t process, detail::inbound_frames const& f) {
      if (f.refused() != refusal::none && f.room() != 0)
        wrong = "a commit of worker process " + std::to_string(process) + ", refused, for " +
                to_string(f.refused()) + ", takes " + std::to_string(f.room()) + " bytes of a server's memory";
    });
    std::uint64_t const dealt_with = s.stats().commits + s.stats().refused;
    if (wrong || !s.number() || dealt_with == dealt_with_) return wrong;
    dealt_with_ = dealt_with;
    return look_at_rows(s, is_row, all_are_there);
  }

 private:
  template <class IsRow>
  [[nodiscard]] static std::optional<std::string> look_at_rows(detail::server_process const& s, IsRow is_row,
                                                               bool all_are_there) {
    if (!s.usage().counts()) return {};
    std::optional<std::string> wrong;
    std::size_t of = ~std::size_t{0};
    std::vector<std::uint64_t> there;
    s.usage().for_each_row([&](std::size_t table, std::uint64_t row, std::uint32_t process) {
      if (of != table) there = rows_of(s, of = table);
      if (is_row(row) && (!all_are_there || std::ranges::binary_search(there, row))) return;
      wrong = "row " + std::to_string(row) + " of table " + std::to_string(table) + " counts for worker process " +
              std::to_string(process) + ", but no commit was taken that has named it";
    });
    return wrong;
  }

  [[nodiscard]] static std::vector<std::uint64_t> rows_of(detail::server_process const& s, std::size_t table) {
    table_state now;
    s.tables().observe(table, now);
    std::vector<std::uint64_t> all(now.keys().begin(), now.keys().end());
    s.tables().inspect([&](auto const& control) {
      control.for_each_held([&](held_commit const& h) {
        auto const& rows = h.message.parts[table]->rows;
        all.insert(all.end(), rows.begin(), rows.end());
      });
    });
    std::ranges::sort(all);
    return all;
  }

  std::uint64_t dealt_with_ = 0;
};

}  // namespace rubato::test
