// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <string>
#include <vector>

namespace rubato::bench {

/// Collects what the paper says of an experiment beside what came out here.
class claims {
 public:
  /// `holds`: whether our figures agree with the paper's sentence.
  void add(bool holds, std::string const& paper, std::string const& ours);
  /// Prints them, those that differ last.
  void print() const;

 private:
  std::vector<std::string> agreeing_, differing_;
};

}  // namespace rubato::bench
