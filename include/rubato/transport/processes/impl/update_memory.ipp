// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>

#include "rubato/transport/processes/update_memory.hpp"
#include "rubato/wire/secret.hpp"

namespace rubato::detail {

std::shared_ptr<update_memory> update_memory::make(blueprint const& plan, std::uint32_t workers,
                                                   net::network& network) {
  std::vector<std::size_t> sizes;
  std::uint64_t of_a_commit = 0;
  for (table_blueprint const& t : plan.tables()) {
    if (!t.bounded() || t.updates()) continue;
    for (std::uint32_t s = 0; s < plan.servers(); ++s) {
      std::uint64_t const bytes = t.where().rows_of(server_id{s}) * t.row_bytes();
      if (bytes < bytes_min) continue;
      of_a_commit += bytes;
      sizes.push_back(static_cast<std::size_t>(bytes));
    }
  }
  if (sizes.empty()) return nullptr;
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  wire::secret key{};
  network.random(std::as_writable_bytes(std::span(key)));
  auto arena = chunk_arena::make(of_a_commit * workers, key, "rubato-updates");
  return arena ? std::make_shared<update_memory>(std::move(arena), std::move(sizes)) : nullptr;
}

void* update_memory::take(std::size_t bytes) noexcept {
  if (retired_.load(std::memory_order_acquire) || !std::ranges::binary_search(sizes_, bytes)) return nullptr;
  return arena_->take(bytes);
}

std::uint64_t update_memory::place_of(std::span<std::byte const> values) const noexcept {
  return values.size() < bytes_min ? 0 : arena_->offset_of(values.data(), values.size()).value_or(0);
}

}  // namespace rubato::detail
