// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Three ways to training data (004 §5.2, §6.2): a stage of many workers loads all of it before those that train; a
// reader loads a few blocks ahead of them, so that the data may be larger than memory; or whoever comes first loads
// it, for all workers and tasks.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <rubato/data/async_reader.hpp>
#include <rubato/data/data_store.hpp>
#include <rubato/data/file_assigner.hpp>
#include <rubato/data/file_block.hpp>
#include <rubato/data/synthetic.hpp>
#include <rubato/model/linear.hpp>
#include <rubato/rubato.hpp>
#include <rubato/task/engine.hpp>
#include <string>
#include <vector>

namespace rb = rubato;
using vec = std::vector<float>;

constexpr std::size_t n = 100;
constexpr std::uint64_t block_bytes = 64 * 1024;
rb::model::linear_model<rb::model::logistic_loss> const model{.l2 = 1e-3};
rb::data::libsvm_options const format{.labels = rb::data::label_kind::plus_minus_one, .features = n};

std::string write_file(rb::data::dataset const& rows) {
  std::string const path = std::filesystem::temp_directory_path() / ("rubato-160-" + std::to_string(::getpid()));
  std::ofstream out(path);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    out << rows[i].label;
    for (std::size_t k = 0; k < rows[i].indices.size(); ++k)
      out << ' ' << rows[i].indices[k] + 1 << ':' << rows[i].values[k];
    out << '\n';
  }
  return path;
}

/// One pass of a worker over some rows.
void train(auto& worker, rb::data::dataset_view rows) {
  vec w(n), delta(n);
  for (auto const batch : rows.batches(50)) {
    worker.pull(w);
    model.gradient(batch, w, delta);
    for (float& d : delta) d *= -0.5F;
    worker.push(delta);
    worker.step(static_cast<double>(batch.size()));
  }
}

double load_then_train(rb::data::dataset const& rows, std::string const& path) {
  rb::engine engine{rb::in_process{.workers = 4}};
  rb::task task{rb::dense<float>{.rows = n}};
  rb::data::file_assigner files(rb::data::split_file(path, block_bytes));
  std::vector<std::vector<rb::data::dataset>> loaded(4);  // each worker writes to its own
  auto const load = task.stage({.workers = 4}, [&](auto& worker) {
    while (auto const block = files.next(rb::node_id{0}))
      loaded[worker.rank()].push_back(rb::data::read_libsvm(*block, format));
  });
  auto const pass = task.stage({.workers = 2, .protocol = rb::ssp{.staleness = 1}}, [&](auto& worker) {
    for (std::size_t i = worker.rank(); i < loaded.size(); i += worker.count())
      for (auto const& part : loaded[i]) train(worker, part);
  });
  task.repeat(1, load);
  task.repeat(3, pass);
  engine.submit(task).wait();
  return model.objective(rows, task.parameters());
}

double train_while_loading(rb::data::dataset const& rows, std::string const& path) {
  rb::cluster cluster{rb::in_process{.workers = 2}, rb::asp{}, rb::dense<float>{.rows = n}};
  for (int pass = 0; pass < 3; ++pass) {
    rb::data::file_assigner files(rb::data::split_file(path, block_bytes));
    rb::data::async_reader<rb::data::dataset> reader(
        [&]() -> std::optional<rb::data::dataset> {
          auto const block = files.next(rb::node_id{0});
          if (!block) return std::nullopt;
          return rb::data::read_libsvm(*block, format);
        },
        2);
    cluster.run([&](auto& worker) {
      while (auto const part = reader.next()) train(worker, *part);
    });
  }
  return model.objective(rows, cluster.parameters());
}

double share_what_is_loaded(rb::data::dataset const& rows, std::string const& path, int& loads) {
  rb::engine engine{rb::in_process{.workers = 4}};
  rb::data::data_store<rb::data::dataset> store;
  auto const load = [&] {
    ++loads;
    return rb::data::read_libsvm(path, format);
  };
  auto const held = store.get(path, load);  // or the last worker of a stage would let go of it
  auto const pass = [&](auto& worker) {
    auto const all = store.get(path, load);
    train(worker, all->shard(worker.rank(), worker.count()));
  };
  rb::task one{rb::dense<float>{.rows = n}}, other{rb::dense<float>{.rows = n}};
  one.repeat(3, one.stage({.workers = 2}, pass));
  other.repeat(1, other.stage({.workers = 2}, pass));
  auto const first = engine.submit(one);
  engine.submit(other).wait();
  first.wait();
  return model.objective(rows, one.parameters());
}

int main() {
  auto const rows = rb::data::make_synthetic({.rows = 10000, .features = n, .nonzeros_per_row = 10});
  std::string const path = write_file(rows);
  std::printf("loaded by a stage: loss %.2f\n", load_then_train(rows, path));
  std::printf("loaded while training: loss %.2f\n", train_while_loading(rows, path));
  int loads = 0;
  double const loss = share_what_is_loaded(rows, path, loads);
  std::printf("shared by two tasks: loss %.2f, loaded %d time\n", loss, loads);
  std::filesystem::remove(path);
}
