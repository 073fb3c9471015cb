// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// The model goes to the data (004 §5.3): each process loads its share of a file once. Then they take turns: the
// threads of one train on its own rows, with the parameters in their own memory, which go on to the next process,
// around the servers.
//   rubato-launch -n 2 -s 1 -- 152_model_to_data
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <rubato/data/file_assigner.hpp>
#include <rubato/data/synthetic.hpp>
#include <rubato/model/linear.hpp>
#include <rubato/rubato.hpp>
#include <rubato/task/engine.hpp>
#include <rubato/transport/tcp.hpp>
#include <string>
#include <vector>

namespace rb = rubato;
using vec = std::vector<float>;

constexpr std::size_t n = 200;
rb::data::dataset const rows = rb::data::make_synthetic({.rows = 4000, .features = n, .nonzeros_per_row = 20});
rb::model::linear_model<rb::model::logistic_loss> const model{.l2 = 1e-3};

/// Stands for a file that all processes see.
std::string write_file() {
  std::string const path = std::filesystem::temp_directory_path() / ("rubato-152-" + std::to_string(::getpid()));
  std::ofstream out(path);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    out << rows[i].label;
    for (std::size_t k = 0; k < rows[i].indices.size(); ++k)
      out << ' ' << rows[i].indices[k] + 1 << ':' << rows[i].values[k];
    out << '\n';
  }
  return path;
}

/// One pass over a part of this process's rows.
void train(auto& worker, std::vector<rb::data::dataset> const& loaded) {
  vec w(n), delta(n);
  for (auto const& part : loaded)
    for (auto const batch : part.shard(worker.rank(), worker.count()).batches(25)) {
      worker.pull(w);
      model.gradient(batch, w, delta);
      for (float& d : delta) d *= -0.5F;
      worker.push(delta);
      worker.step(static_cast<double>(batch.size()));
    }
}

int main() {
  auto const across = rb::tcp::from_environment(2);
  bool const works = across.place.as == rb::net::role::worker;
  std::uint32_t const processes = across.place.workers;
  std::vector<rb::data::dataset> loaded;  // by this process

  rb::engine engine{across};
  rb::task task{rb::dense<float, rb::sum>{.rows = n}};
  task.run(task.stage({.workers = processes, .where = rb::placement(processes, 1)}, [&](auto& worker) {
    std::string const path = write_file();
    auto const shares = rb::data::share_out(rb::data::split_file(path, 64 * 1024), processes);
    for (auto const& block : shares[worker.rank()])
      loaded.push_back(rb::data::read_libsvm(block, {.labels = rb::data::label_kind::plus_minus_one, .features = n}));
    std::filesystem::remove(path);
  }));
  for (std::uint32_t turn = 0; turn < 5 * processes; ++turn) {
    rb::placement where(processes, 0);
    where[turn % processes] = 2;
    task.run(task.stage({.workers = 2, .protocol = rb::asp{}, .where = where, .local = rb::single_machine{}},
                        [&](auto& worker) { train(worker, loaded); }));
  }
  auto const report = engine.submit(task).wait();
  if (works && across.place.rank == 0)
    std::printf("loss %.2f after %zu stages\n", model.objective(rows, task.parameters()), report.stages.size());
}
