// expect alone: a policy's check() must be const, or it is never called
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/core/ids.hpp>
#include <rubato/partition/partition_rule.hpp>

struct first {
  void check() {}
  static rubato::server_id server_of(rubato::key, rubato::table_shape) { return rubato::server_id{0}; }
};

rubato::partition_rule const rule = first{};
