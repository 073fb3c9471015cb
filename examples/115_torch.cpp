// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A small convolutional network of LibTorch learns digits of 14x14 pixels under three protocols: 2000 synthetic ones,
// or MNIST's with `115_torch all DIRECTORY`. The lines that Rubato adds to a training loop of torch's are numbered.
//   115_torch
// The same on several processes, under one protocol (bsp unless it says which):
//   rubato-launch -n 2 -s 1 -- 115_torch ssp
//   rubato-launch -n 2 -s 1 -- 115_torch adsp
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <rubato/data/idx.hpp>
#include <rubato/data/synthetic_digits.hpp>
#include <rubato/rubato.hpp>
#include <rubato/torch.hpp>
#include <rubato/transport/tcp.hpp>
#include <string>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

namespace rb = rubato;
using namespace std::chrono_literals;

constexpr std::int64_t side = 14, batch = 20, passes = 5;
constexpr float rate = 0.1F;

struct network : torch::nn::Module {
  torch::nn::Conv2d first{torch::nn::Conv2dOptions(1, 8, 3)}, second{torch::nn::Conv2dOptions(8, 16, 3)};
  torch::nn::Linear last{16 * 2 * 2, 10};

  network() { register_module("first", first), register_module("second", second), register_module("last", last); }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(torch::relu(first(x)), 2);
    x = torch::max_pool2d(torch::relu(second(x)), 2);
    return last(x.flatten(1));
  }
};

struct images {
  torch::Tensor x, digits;

  explicit images(rb::data::dataset const& rows)
      : x(torch::zeros({static_cast<std::int64_t>(rows.size()), 1, side, side})),
        digits(torch::empty({x.size(0)}, torch::kInt64)) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      float* const pixels = x.data_ptr<float>() + i * side * side;
      for (std::size_t k = 0; k < rows[i].indices.size(); ++k) pixels[rows[i].indices[k]] = rows[i].values[k];
      digits.data_ptr<std::int64_t>()[i] = static_cast<std::int64_t>(rows[i].label);
    }
  }
};

torch::Tensor loss_of(network& net, images const& of, std::int64_t first) {
  return torch::cross_entropy_loss(net.forward(of.x.narrow(0, first, batch)), of.digits.narrow(0, first, batch));
}

/// What torch does without Rubato, to compare with.
void train_alone(network& net, images const& data) {
  torch::optim::SGD optimizer(net.parameters(), rate);
  for (std::int64_t step = 0; step < passes * data.x.size(0) / batch; ++step) {
    optimizer.zero_grad();
    loss_of(net, data, step * batch % data.x.size(0)).backward();
    optimizer.step();
  }
}

void train(network& result, images const& data, auto const& transport, rb::rules const& protocol, bool reads = true) {
  rb::flat_parameters all{result};                                                                       // 1
  rb::cluster cluster{transport, protocol, rb::dense<float>{.rows = all.size(), .init = all.values()}};  // 2
  cluster.run([&](auto& worker) {                                                                        // 3
    at::set_num_threads(1);  // or each worker has as many as there are cores                            // 4
    auto const net = rb::make_module<network>(1);                                                        // 5
    rb::flat_parameters flat{*net};                                                                      // 6
    for (auto step = std::int64_t{worker.rank()}; step < passes * data.x.size(0) / batch; step += worker.count()) {
      worker.pull(flat.values());                                                                        // 7
      flat.zero_gradients();                                                                             // 8
      auto const loss = loss_of(*net, data, step * batch % data.x.size(0));
      loss.backward();
      worker.push(flat.descent(rate * static_cast<float>(worker.count())));                              // 9
      worker.report_loss(loss.template item<double>());                                                  // 10
      worker.step();                                                                                     // 11
    }
  });
  if (reads) std::ranges::copy(cluster.parameters(), all.values().begin());                              // 12
}

/// Trains by `how`, from the same first parameters, and says how well that works on other images.
void report(std::string const& what, images const& test, bool prints, auto how) {
  auto const net = rb::make_module<network>(1);
  auto const start = std::chrono::steady_clock::now();
  how(*net);
  if (!prints) return;
  double const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  torch::NoGradGuard const plain;
  double const share = net->forward(test.x).argmax(1).eq(test.digits).to(torch::kDouble).mean().item<double>();
  std::printf("%s: %.1f%% are right after %.1f s\n", what.c_str(), 100 * share, seconds);
}

int main(int argc, char** argv) try {
  at::set_num_threads(1);
  auto const digits = rb::data::make_synthetic_digits({.rows = 2500, .side = side}).split(0.2, 1);
  auto const read = [&](std::string const& part) {
    std::string const at = argv[2] + ("/" + part);
    return rb::data::read_idx_images(at + "-images-idx3-ubyte.gz", at + "-labels-idx1-ubyte.gz", {.pool = 28 / side});
  };
  images const data(argc > 2 ? read("train") : digits.train), test(argc > 2 ? read("t10k") : digits.test);
  auto const across = rb::tcp::from_environment();
  bool const launched = across.place.rank.has_value(), trains = across.place.as == rb::net::role::worker;
  std::string const which = argc > 1 ? argv[1] : launched ? "bsp" : "all";
  if (!launched) report("torch alone", test, true, [&](network& net) { train_alone(net, data); });
  for (rb::rules const& protocol : {rb::rules(rb::bsp{}), rb::rules(rb::with(rb::ssp{.staleness = 3}, rb::average{})),
                                    rb::rules(rb::adsp{.check_period = 200ms, .epoch = 20s, .probe_period = 1s})}) {
    if (launched && which == protocol.name)
      report(protocol.name + " across processes", test, trains && across.place.rank == 0,
             [&](network& net) { train(net, data, across, protocol, trains); });
    else if (!launched && (which == protocol.name || which == "all"))
      report(protocol.name + " in process", test, true,
             [&](network& net) { train(net, data, rb::in_process{.workers = 2}, protocol); });
  }
} catch (std::exception const& e) {
  std::fprintf(stderr, "115_torch: %s\n", e.what());
  return 1;
}
