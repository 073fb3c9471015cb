// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <functional>

#include "rubato/transport/processes/update_memory.hpp"
#include "rubato/wire/secret.hpp"

namespace rubato::detail {

namespace {

/// Parts of one table may differ by a row: they share slots, where these are not much larger.
std::vector<update_memory::size_class> classes_of(std::vector<std::size_t> sizes) {
  std::vector<update_memory::size_class> all;
  std::ranges::sort(sizes, std::greater<>());
  for (std::size_t const bytes : sizes)
    if (!all.empty() && bytes >= all.back().most - all.back().most / 8) all.back().least = bytes;
    else all.push_back({bytes, bytes});
  std::ranges::reverse(all);
  return all;
}

std::size_t bytes_of_whole(table_blueprint const& t, std::uint32_t server) {
  return static_cast<std::size_t>(t.where().rows_of(server_id{server}) * t.row_bytes());
}

}  // namespace

bool update_memory::lends(table_blueprint const& table, std::uint32_t servers) {
  bool any = false;
  if (table.bounded() && !table.updates())
    for (std::uint32_t s = 0; s < servers; ++s) any = any || bytes_of_whole(table, s) >= bytes_min;
  return any;
}

std::shared_ptr<update_memory> update_memory::make(blueprint const& plan, std::uint32_t workers,
                                                   net::network& network) {
  std::vector<std::size_t> sizes;
  std::uint64_t of_a_commit = 0;
  for (table_blueprint const& t : plan.tables()) {
    if (!lends(t, plan.servers())) continue;
    for (std::uint32_t s = 0; s < plan.servers(); ++s) {
      std::size_t const bytes = bytes_of_whole(t, s);
      if (bytes < bytes_min) continue;
      of_a_commit += bytes;
      sizes.push_back(bytes);
    }
  }
  if (sizes.empty()) return nullptr;
  return make_of(of_a_commit * workers, classes_of(std::move(sizes)), network);
}

std::shared_ptr<update_memory> update_memory::make(std::size_t parameters, net::network& network) {
  std::vector<size_class> sizes;
  for (std::size_t least = bytes_min; least <= parameters; least = sizes.back().most + 1)
    sizes.push_back({least, std::min(2 * least, parameters)});
  return sizes.empty() ? nullptr : make_of(replicas * parameters, std::move(sizes), network);
}

std::shared_ptr<update_memory> update_memory::make_of(std::uint64_t bytes, std::vector<size_class> sizes,
                                                      net::network& network) {
  wire::secret key{};
  network.random(std::as_writable_bytes(std::span(key)));
  auto arena = chunk_arena::make(bytes, key, "rubato-updates");
  return arena ? std::make_shared<update_memory>(std::move(arena), std::move(sizes)) : nullptr;
}

std::size_t update_memory::slot_of(std::size_t bytes) const noexcept {
  auto const at = std::ranges::lower_bound(sizes_, bytes, {}, &size_class::most);
  return at != sizes_.end() && bytes >= at->least ? at->most : 0;
}

void* update_memory::take(std::size_t bytes) noexcept {
  std::size_t const slot = slot_of(bytes);
  return slot == 0 || retired_.load(std::memory_order_acquire) ? nullptr : arena_->take(slot);
}

std::uint64_t update_memory::place_of(std::span<std::byte const> values) const noexcept {
  return values.size() < bytes_min ? 0 : arena_->offset_of(values.data(), values.size()).value_or(0);
}

}  // namespace rubato::detail
