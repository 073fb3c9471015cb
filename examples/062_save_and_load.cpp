// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A model that is trained, written to a file, read again and trained on: a sparse table, of which the touched rows and
// their keys are kept.
#include <cstdint>
#include <cstdio>
#include <rubato/rubato.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace rb = rubato;

using model = rb::sparse_snapshot<float>;

/// All that was written, or an error: a file that was cut has no end.
void save(model const& m, std::ostream& to) {
  to.exceptions(std::ios::badbit | std::ios::failbit);
  to << m.keys.size() << '\n';
  for (std::size_t i = 0; i < m.keys.size(); ++i) to << m.keys[i] << ' ' << std::hexfloat << m.values[i] << '\n';
  to << "end\n" << std::flush;
}
model load(std::istream& from) {
  from.exceptions(std::ios::badbit | std::ios::failbit);
  model m;
  std::size_t rows = 0;
  from >> rows;
  for (std::uint64_t key = 0; rows > 0; --rows) {
    std::string value;
    from >> key >> value;
    m.keys.push_back(key);
    m.values.push_back(std::stof(value));
  }
  std::string end;
  from >> end;
  if (end != "end" || from.get() != '\n') throw std::runtime_error("the model ends too early");
  return m;
}

/// Words are counted by their numbers.
model count_on(model const& kept, std::vector<std::uint64_t> const& words) {
  rb::sparse<float> const table{.init_keys = kept.as_keys(), .init = kept.values};
  rb::cluster cluster{rb::in_process{.workers = 2}, rb::ssp{.staleness = 1}, table};
  cluster.run([&](auto& worker) {
    for (std::size_t i = worker.rank(); i < words.size(); i += worker.count()) {
      worker.push(std::vector{words[i]}, std::vector{1.0F});
      worker.step();
    }
  });
  return cluster.parameters();
}

int main() {
  std::stringstream file;  // or a std::ofstream, and a std::ifstream
  save(count_on({}, {7, 1'000'000'007, 7}), file);
  model const counted = count_on(load(file), {3, 7});
  for (std::size_t i = 0; i < counted.keys.size(); ++i)
    std::printf("word %llu: %g\n", static_cast<unsigned long long>(counted.keys[i]),
                static_cast<double>(counted.values[i]));
}
