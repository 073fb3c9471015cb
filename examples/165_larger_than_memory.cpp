// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A model that is four times as large as the memory that its servers may take for it: what has not been used
// for longest goes to a file. Trained by key, it comes out as if there were memory for all of it, bit for bit.
//   rubato-launch -n 1 -s 2 -- 165_larger_than_memory
// does so across processes, too: the launcher starts this program as the servers that hold the table.
#include <cstdio>
#include <rubato/data/compact.hpp>
#include <rubato/data/synthetic.hpp>
#include <rubato/model/linear.hpp>
#include <rubato/rubato.hpp>
#include <rubato/storage/paged.hpp>
#include <rubato/transport/tcp.hpp>
#include <vector>

namespace rb = rubato;

constexpr std::size_t features = 200'000;
constexpr std::size_t memory = features * sizeof(float) / 4;
rb::data::dataset const rows = rb::data::make_synthetic({.rows = 2'000, .features = features, .nonzeros_per_row = 30});
rb::model::linear_model<rb::model::logistic_loss> const model{.l2 = 1e-4};

template <class Transport, class Table>
std::vector<float> train(Transport const& transport, Table const& table) {
  std::vector<float> result;  // stays empty where this process serves
  rb::cluster cluster{transport, rb::bsp{}, table};
  cluster.run([&](auto& worker) {
    for (std::size_t first = 0; first < rows.size(); first += 50) {
      auto const batch = rb::data::compact(rows.rows().slice(first, 50));
      std::vector<float> w(batch.keys.size()), delta(w.size());
      worker.pull(batch.keys, w);
      model.local_step(batch.rows, 30.0, w, delta);
      worker.push(batch.keys, delta), worker.step(50);
    }
    worker.pull(result = std::vector<float>(features));
  });
  return result;
}

int main() {
  rb::paged<float> const pages{{.rows = features}, {.memory_limit = memory, .chunk_bytes = 4096}};
  auto const across = rb::tcp::from_environment();
  if (across.place.as != rb::net::role::worker) return train(across, pages), 0;
  auto const expected = train(rb::in_process{}, rb::dense<float>{.rows = features});
  auto const say = [&](char const* where, std::vector<float> const& w) {
    std::printf("%s: %s, loss %.2f\n", where, w == expected ? "the same" : "another model", model.objective(rows, w));
  };
  say("in process", train(rb::in_process{}, pages));
  say("simulated", train(rb::simulated{}, pages));
  say("across processes", train(across, pages));
}
