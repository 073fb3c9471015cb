// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "src/tools/server/host.hpp"

#include "rubato/transport/tcp/coordinator_node.hpp"
#include "src/tools/server/conducted.hpp"
#include "src/tools/server/hosted.hpp"

namespace rubato::server_tool {

namespace {

std::string merge_of_run(std::string const& protocol) {
  if (protocol == "dyn_sgd") return "revise";
  if (protocol == "con_sgd" || protocol == "adsp") return "scale";
  return protocol == "ssp" || protocol == "asp" ? "sum" : "average";
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
  control.make_conductor = conductor_maker(o);
  // What cannot be meant is refused now, and not when everybody is there.
  if (control.make_conductor) (void)control.make_conductor();
  detail::coordinator_node node(o.place, control);
  auto const until_over = started([&node] { node.stop(); });
  node.run();
}

}  // namespace rubato::server_tool
