// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <string>

#include "rubato/core/error.hpp"
#include "rubato/partition/on_servers.hpp"

namespace rubato::detail {

void check_server_list(std::vector<std::uint32_t> const& servers) {
  if (servers.empty()) throw option_error("on_servers: the list is empty, expected at least one server");
  auto sorted = servers;
  std::ranges::sort(sorted);
  if (auto const twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
    throw option_error("on_servers: server " + std::to_string(*twice) +
                       " is named twice, expected each server once");
}

void check_server_list(std::vector<std::uint32_t> const& servers, std::uint32_t in_cluster) {
  for (std::uint32_t const s : servers)
    if (s >= in_cluster)
      throw option_error("on_servers: the cluster has no server " + std::to_string(s) +
                         ", expected servers below " + std::to_string(in_cluster));
}

void refuse_place_in_list(server_id place, key k, std::size_t servers) {
  throw option_error("on_servers: key " + std::to_string(k.value()) + " was given to place " +
                     std::to_string(place.value()) + " of the list, expected one below " +
                     std::to_string(servers));
}

}  // namespace rubato::detail
