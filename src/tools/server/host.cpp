// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "src/tools/server/host.hpp"

#include "rubato/core/error.hpp"
#include "rubato/protocol/ada_comm.hpp"
#include "rubato/protocol/adsp.hpp"
#include "rubato/transport/tcp/coordinator_node.hpp"
#include "src/tools/server/hosted.hpp"

namespace rubato::server_tool {

namespace {

std::string merge_of_run(std::string const& protocol) {
  if (protocol == "dyn_sgd") return "revise";
  if (protocol == "con_sgd" || protocol == "adsp") return "scale";
  return protocol == "ssp" || protocol == "asp" ? "sum" : "average";
}

template <class Pace>
std::function<std::unique_ptr<any_conductor>()> conductor_for(Pace const& pace) {
  return [pace]() -> std::unique_ptr<any_conductor> {
    auto made = pace.make_conductor();
    return std::make_unique<detail::erased_conductor<decltype(made)>>(std::move(made));
  };
}

}  // namespace

std::unique_ptr<host> make_host(options const& o) {
  std::string const merge = merge_of_run(o.protocol);
  if (merge == "sum") return host_eager_sum(o);
  if (merge == "scale") return host_eager_scale(o);
  if (merge == "revise") return host_eager_revise(o);
  return host_strict_average(o);
}

void coordinate(options const& o, coordinator_started const& started) {
  run_control::options control;
  control.workers = o.place.workers;
  control.servers = o.place.servers;
  control.when_lost = o.place.when_lost;
  control.need = [a = named_admission(o)](clock_index c, staleness s) { return a.need(c, s); };
  if (o.protocol == "adsp")
    control.make_conductor = conductor_for(adsp{.check_period = seconds(o.check_period),
                                                .epoch = seconds(o.epoch),
                                                .probe_period = seconds(o.probe_period),
                                                .first_rate = o.first_rate,
                                                .search = o.search}
                                               .pace());
  if (o.protocol == "ada_comm")
    control.make_conductor = conductor_for(ada_comm{.first_steps = o.first_steps,
                                                    .interval = seconds(o.interval),
                                                    .gamma = o.gamma}
                                               .pace());
  detail::coordinator_node node(o.place, control);
  auto const until_over = started([&node] { node.stop(); });
  node.run();
}

}  // namespace rubato::server_tool
