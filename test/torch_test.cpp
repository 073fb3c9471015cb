// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/torch.hpp>

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>
#undef CHECK  // glog's, by way of torch

#include <catch2/catch.hpp>

#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <rubato/data/synthetic_digits.hpp>
#include <rubato/rubato.hpp>

namespace rubato {
namespace {

using Catch::Matchers::Contains;

/// A convolution, a batch normalization and a linear layer: parameters of four shapes, buffers of two.
struct small_network : torch::nn::Module {
  torch::nn::Conv2d conv{torch::nn::Conv2dOptions(1, 4, 3)};
  torch::nn::BatchNorm2d norm{4};
  torch::nn::Linear last{4 * 3 * 3, 10};

  small_network() {
    register_module("conv", conv);
    register_module("norm", norm);
    register_module("last", last);
  }
  torch::Tensor forward(torch::Tensor x) {
    return last(torch::max_pool2d(torch::relu(norm(conv(x))), 3).flatten(1));
  }
};
constexpr std::size_t small_size = 4 * 9 + 4 + 4 + 4 + 36 * 10 + 10;

struct one_parameter : torch::nn::Module {
  torch::Tensor w;
  explicit one_parameter(torch::Tensor const& of) : w(register_parameter("w", of)) {}
};

struct digits {
  torch::Tensor x, y;
  digits() {
    at::set_num_threads(1);  // sums in one order, on any machine
    auto const rows = data::make_synthetic_digits({.rows = 200, .side = 12, .seed = 3});
    x = torch::zeros({200, 1, 12, 12});
    y = torch::empty({200}, torch::kInt64);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t k = 0; k < rows[i].indices.size(); ++k)
        x.data_ptr<float>()[i * 144 + rows[i].indices[k]] = rows[i].values[k];
      y.data_ptr<std::int64_t>()[i] = static_cast<std::int64_t>(rows[i].label);
    }
  }
  [[nodiscard]] torch::Tensor loss(small_network& net, std::int64_t step) const {
    std::int64_t const at = step * 20 % 200;
    return torch::cross_entropy_loss(net.forward(x.narrow(0, at, 20)), y.narrow(0, at, 20));
  }
};

/// All parameters, one after the other, read by torch.
std::vector<float> read_all(torch::nn::Module const& module) {
  std::vector<float> all;
  for (auto const& p : module.parameters()) {
    float const* const begin = p.data_ptr<float>();
    all.insert(all.end(), begin, begin + p.numel());
  }
  return all;
}

double farthest(std::span<float const> a, std::span<float const> b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(double{a[i]} - double{b[i]}));
  return most;
}

std::vector<float> copy_of(std::span<float const> of) { return {of.begin(), of.end()}; }

TEST_CASE("flat_parameters: a module's parameters and gradients are views of two pieces, and as they were") {
  auto const net = make_module<small_network>(1);
  std::vector<float> const before = read_all(*net);
  flat_parameters flat(*net);
  REQUIRE(flat.size() == small_size);
  CHECK(copy_of(std::as_const(flat).values()) == before);

  float const* at = std::as_const(flat).values().data();
  float const* grad_at = flat.gradients().data();
  for (auto const& p : net->named_parameters()) {
    INFO(p.key());
    CHECK(p.value().data_ptr<float>() == at);
    CHECK(p.value().grad().data_ptr<float>() == grad_at);
    CHECK(p.value().is_leaf());
    CHECK(p.value().requires_grad());
    at += p.value().numel();
    grad_at += p.value().numel();
  }
  flat.values()[0] = 7;
  CHECK(net->conv->weight[0][0][0][0].item<float>() == 7);
  torch::NoGradGuard const plain;
  net->last->bias.fill_(3);
  CHECK(std::as_const(flat).values().back() == 3);
  CHECK_NOTHROW(flat.check());
}

TEST_CASE("flat_parameters: the module goes on to work when they are gone") {
  auto const net = make_module<small_network>(1);
  std::vector<float> const before = read_all(*net);
  { flat_parameters const flat(*net); }
  CHECK(read_all(*net) == before);
  flat_parameters again(*net);
  CHECK(copy_of(again.values()) == before);
}

TEST_CASE("flat_parameters: gradients add up in their piece until they are set to 0") {
  digits const data;
  auto const net = make_module<small_network>(1);
  auto const same = make_module<small_network>(1);
  data.loss(*same, 0).backward();
  std::vector<float> once;
  for (auto const& p : same->parameters()) {
    torch::Tensor const g = p.grad().contiguous();
    once.insert(once.end(), g.data_ptr<float>(), g.data_ptr<float>() + g.numel());
  }

  flat_parameters flat(*net);
  data.loss(*net, 0).backward();
  CHECK(copy_of(flat.gradients()) == once);
  net->norm->running_mean.zero_();  // the second pass is the first again
  data.loss(*net, 0).backward();
  for (std::size_t i = 0; i < once.size(); ++i) CHECK(flat.gradients()[i] == 2 * once[i]);
  flat.zero_gradients();
  CHECK(copy_of(flat.gradients()) == std::vector<float>(small_size));
}

TEST_CASE("flat_parameters: gradients that torch has replaced are collected, and are views again") {
  digits const data;
  auto const net = make_module<small_network>(1);
  flat_parameters flat(*net);
  data.loss(*net, 0).backward();
  std::vector<float> const expected = copy_of(flat.gradients());

  for (auto& p : net->parameters()) p.mutable_grad().reset();  // as zero_grad(true) does
  data.loss(*net, 0).backward();
  REQUIRE(net->conv->weight.grad().data_ptr<float>() != flat.gradients().data() + flat.size());
  CHECK(copy_of(flat.gradients()) == expected);
  CHECK(net->conv->weight.grad().data_ptr<float>() == flat.gradients().data());

  for (auto& p : net->parameters()) p.mutable_grad().reset();
  CHECK(copy_of(flat.gradients()) == std::vector<float>(small_size));
  for (auto& p : net->parameters()) p.mutable_grad() = torch::ones_like(p);
  flat.zero_gradients();
  CHECK(copy_of(flat.gradients()) == std::vector<float>(small_size));
  CHECK(net->last->bias.grad().sum().item<float>() == 0);
}

TEST_CASE("flat_parameters: gradients that were there before are kept") {
  one_parameter module(torch::ones({3}));
  (2 * module.w).sum().backward();
  flat_parameters flat(module);
  CHECK(copy_of(flat.gradients()) == std::vector<float>{2, 2, 2});
}

TEST_CASE("flat_parameters: a step of descent by hand is a step of torch's optimizer") {
  digits const data;
  auto const net = make_module<small_network>(1);
  auto const theirs = make_module<small_network>(1);
  flat_parameters flat(*net);
  torch::optim::SGD optimizer(theirs->parameters(), 0.1);
  for (std::int64_t step = 0; step < 5; ++step) {
    flat.zero_gradients();
    data.loss(*net, step).backward();
    auto const add = flat.descent(0.1F);
    auto const w = flat.values();
    for (std::size_t i = 0; i < w.size(); ++i) w[i] += add[i];
    optimizer.zero_grad();
    data.loss(*theirs, step).backward();
    optimizer.step();
  }
  std::vector<float> const expected = read_all(*theirs);
  CHECK(farthest(std::as_const(flat).values(), expected) < 2e-6);  // torch multiplies and adds in one rounding
  CHECK(farthest(expected, read_all(*make_module<small_network>(1))) > 0.01);
}

TEST_CASE("flat_parameters: change is what an optimizer of torch's has added since mark") {
  digits const data;
  auto const net = make_module<small_network>(1);
  flat_parameters flat(*net);
  torch::optim::Adam optimizer(net->parameters(), 0.01);
  CHECK_THROWS_AS(flat.change(), usage_error);
  flat.mark();
  std::vector<float> const before = copy_of(std::as_const(flat).values());
  flat.zero_gradients();
  data.loss(*net, 0).backward();
  optimizer.step();
  std::vector<float> const after = copy_of(std::as_const(flat).values());
  std::vector<float> const change = copy_of(flat.change());
  for (std::size_t i = 0; i < change.size(); ++i) CHECK(change[i] == after[i] - before[i]);
  CHECK(farthest(change, std::vector<float>(small_size)) > 0.005);
  CHECK_THROWS_WITH(flat.change(), Contains("without a mark()"));
}

TEST_CASE("flat_parameters: what is not of contiguous 32-bit floats on the CPU is refused by name") {
  auto const refused = [](torch::nn::Module& module, char const* what) {
    CHECK_THROWS_AS(flat_parameters(module), option_error);
    CHECK_THROWS_WITH(flat_parameters(module), Contains(what) && Contains("expected"));
  };
  small_network doubles;
  doubles.last->to(torch::kFloat64);
  float const* const there = doubles.conv->weight.data_ptr<float>();
  refused(doubles, "parameter 'last.weight' is of Double");
  CHECK(doubles.conv->weight.data_ptr<float>() == there);  // nothing was moved

  one_parameter transposed(torch::ones({2, 3}).t());
  refused(transposed, "parameter 'w' is not contiguous");
  one_parameter elsewhere(torch::ones({2, 3}, torch::kMeta));
  refused(elsewhere, "parameter 'w' is on meta");
  one_parameter halves(torch::ones({2, 3}, torch::kFloat16));
  refused(halves, "parameter 'w' is of Half");

  struct : torch::nn::Module {
  } nothing;
  refused(nothing, "has nothing to train");
  one_parameter empty(torch::ones({0}));
  refused(empty, "has nothing to train");

  torch::Tensor const both = torch::ones({4});
  struct overlapping : torch::nn::Module {
    explicit overlapping(torch::Tensor const& of) {
      register_parameter("a", of.narrow(0, 0, 3));
      register_parameter("b", of.narrow(0, 2, 2));
    }
  } views(both);
  refused(views, "parameters 'a' and 'b' share memory");
}

TEST_CASE("flat_parameters: frozen parameters stay where they are, one that is there twice is there once") {
  small_network net;
  net.conv->weight.set_requires_grad(false);
  float const* const there = net.conv->weight.data_ptr<float>();
  flat_parameters const flat(net);
  CHECK(flat.size() == small_size - 36);
  CHECK(net.conv->weight.data_ptr<float>() == there);

  struct tied : torch::nn::Module {
    torch::Tensor a, b, none;
    tied() {
      a = register_parameter("a", torch::ones({5}));
      b = register_parameter("b", a);
      none = register_parameter("none", torch::ones({0}));
    }
  } twice;
  flat_parameters once(twice);
  REQUIRE(once.size() == 5);
  once.values()[2] = 4;
  CHECK(twice.a[2].item<float>() == 4);
  CHECK(twice.b[2].item<float>() == 4);
  CHECK_NOTHROW(once.check());
}

TEST_CASE("flat_parameters: check notices that a module's parameters are others, and says which") {
  auto const net = make_module<small_network>(1);
  flat_parameters flat(*net);
  auto const changed = [&](char const* what) {
    CHECK_THROWS_AS(flat.check(), usage_error);
    CHECK_THROWS_WITH(flat.check(), Contains(what) && Contains("make it again"));
  };
  SECTION("moved") {
    net->last->bias.set_data(torch::zeros({10}));
    changed("'last.bias' has been given other memory");
    CHECK_THROWS_AS(flat.values(), usage_error);
    CHECK_THROWS_AS(std::as_const(flat).values(), usage_error);
    CHECK_THROWS_AS(flat.mark(), usage_error);
  }
  SECTION("of another type") {
    net->to(torch::kFloat64);
    changed("'conv.weight' has been given other memory");
  }
  SECTION("added") {
    net->register_parameter("more", torch::ones({2}));
    changed("'more' has been added");
  }
  SECTION("frozen") {
    net->last->bias.set_requires_grad(false);
    changed("'last.bias' has been removed or frozen");
  }
  SECTION("laid out once more") {
    flat_parameters const again(*net);
    changed("'conv.weight' has been given other memory");
    CHECK_NOTHROW(again.check());
  }
}

TEST_CASE("flat_parameters: a sparse gradient is refused by name") {
  struct embedding : torch::nn::Module {
    torch::nn::Embedding words{torch::nn::EmbeddingOptions(10, 3).sparse(true)};
    embedding() { register_module("words", words); }
  } module;
  flat_parameters flat(module);
  auto const use = [&] { module.words(torch::ones({2}, torch::kInt64)).sum().backward(); };
  use();  // into the dense one that is there
  CHECK(flat.gradients()[3] == 2);
  module.words->weight.mutable_grad().reset();
  use();
  CHECK_THROWS_WITH(flat.gradients(), Contains("'words.weight' is sparse"));
  flat.zero_gradients();
  CHECK(flat.gradients()[3] == 0);
}

TEST_CASE("flat_parameters: torch refuses to go backward past a pull") {
  digits const data;
  auto const net = make_module<small_network>(1);
  flat_parameters flat(*net);
  auto const loss = data.loss(*net, 0);
  flat.values()[0] = 1;
  CHECK_THROWS_WITH(loss.backward(), Contains("modified by an inplace operation"));
}

TEST_CASE("make_module: initial values depend on the seed, and torch's generator goes on as if nothing had been") {
  std::vector<float> const first = read_all(*make_module<small_network>(5));
  torch::manual_seed(9);
  float const drawn = torch::rand({1}).item<float>();
  torch::manual_seed(9);
  CHECK(read_all(*make_module<small_network>(5)) == first);
  CHECK(torch::rand({1}).item<float>() == drawn);
  CHECK(read_all(*make_module<small_network>(6)) != first);

  std::vector<int> others(4);  // of each thread's modules, those that came out otherwise
  {
    std::vector<std::jthread> threads;
    for (int& count : others)
      threads.emplace_back([&] {
        for (int i = 0; i < 200; ++i) count += read_all(*make_module<small_network>(5)) != first;
      });
  }
  CHECK(others == std::vector<int>(4));
}

/// Trains on `transport`, whose workers take turns with the batches; returns the parameters.
template <class Transport, class Protocol>
std::vector<float> train_digits(Transport const& transport, Protocol const& protocol, std::int64_t steps) {
  digits const data;
  auto const start = make_module<small_network>(1);
  flat_parameters all(*start);
  cluster cluster{transport, protocol, dense<float>{.rows = all.size(), .init = all.values()}};
  cluster.run([&](auto& worker) {
    at::set_num_threads(1);
    auto const net = make_module<small_network>(1);
    flat_parameters flat(*net);
    for (auto step = std::int64_t{worker.rank()}; step < steps; step += worker.count()) {
      worker.pull(flat.values());
      flat.zero_gradients();
      data.loss(*net, step).backward();
      worker.push(flat.descent(0.1F));
      worker.step();
    }
  });
  return cluster.parameters();
}

TEST_CASE("flat_parameters: one worker under BSP is torch's SGD to rounding, in threads and in virtual time") {
  digits const data;
  auto const net = make_module<small_network>(1);
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  for (std::int64_t step = 0; step < 20; ++step) {
    optimizer.zero_grad();
    data.loss(*net, step).backward();
    optimizer.step();
  }
  std::vector<float> const trained = train_digits(in_process{.workers = 1}, bsp{}, 20);
  CHECK(farthest(trained, read_all(*net)) < 1e-5);
  CHECK(farthest(trained, read_all(*make_module<small_network>(1))) > 0.05);
  CHECK(train_digits(simulated{.workers = 1}, bsp{}, 20) == trained);
}

TEST_CASE("flat_parameters: workers in threads come to the same as simulated ones, bit for bit under BSP") {
  CHECK(train_digits(in_process{.workers = 3, .servers = 2}, bsp{}, 15) ==
        train_digits(simulated{.workers = 3, .servers = 2}, bsp{}, 15));
}

}  // namespace
}  // namespace rubato
