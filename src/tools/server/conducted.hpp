// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "rubato/core/time.hpp"
#include "rubato/protocol/ada_comm.hpp"
#include "rubato/protocol/adsp.hpp"
#include "rubato/protocol/conductor.hpp"
#include "rubato/transport/tcp/agreement.hpp"
#include "rubato/transport/tcp/coordinator_node.hpp"
#include "src/tools/server/options.hpp"

namespace rubato::server_tool {

/// Calls `f` with the protocol that was named on the command line if its pace has a conductor.
template <class F>
void with_conducted_protocol(options const& o, F const& f) {
  if (o.protocol == "adsp")
    f(adsp{.check_period = seconds(o.check_period),
           .epoch = seconds(o.epoch),
           .probe_period = seconds(o.probe_period),
           .first_rate = o.first_rate,
           .search = o.search});
  if (o.protocol == "ada_comm")
    f(ada_comm{.first_steps = o.first_steps, .interval = seconds(o.interval), .gamma = o.gamma});
}

/// What the orders that its workers follow are called; empty if there are none.
[[nodiscard]] inline std::string name_of_orders(options const& o) {
  std::string name;
  with_conducted_protocol(o, [&](auto const& p) {
    name = detail::name_of_orders<conductor_of<std::remove_cvref_t<decltype(p)>>>();
  });
  return name;
}

/// What makes its conductor; nothing if it has none.
[[nodiscard]] inline std::function<std::unique_ptr<any_conductor>()> conductor_maker(
    options const& o) {
  std::function<std::unique_ptr<any_conductor>()> maker;
  with_conducted_protocol(o, [&](auto const& p) {
    maker = [pace = p.pace()]() -> std::unique_ptr<any_conductor> {
      auto made = pace.make_conductor();
      return std::make_unique<detail::erased_conductor<decltype(made)>>(std::move(made));
    };
  });
  return maker;
}

}  // namespace rubato::server_tool
