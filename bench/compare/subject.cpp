// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/compare/subject.hpp"

#include <fmt/format.h>

namespace rubato::bench {
namespace {

std::string description_of(workload const& work, std::string const& data) {
  std::string const size =
      work.parameters() == work.features() ? "" : fmt::format(" of {} parameters", work.parameters());
  return fmt::format("{}{} on {}: {} rows, {} features", work.name(), size, data, work.train().size(),
                     work.features());
}

}  // namespace

subject::subject(compare_settings const& settings) {
  if (settings.app) {
    app_ = make_application(*settings.app, settings.data);
    description_ = app_->description();
    return;
  }
  loaded_data data = load_data(settings.data, settings.job.seed);
  std::string const name = data.name;
  work_ = std::make_unique<shuffled_workloads>(settings.model, std::move(data), settings.data.shards);
  description_ = description_of(work_->first(), name);
}

}  // namespace rubato::bench
