// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A store of one's own: parameters kept in two bytes each, as bfloat16. Workers see floats.
//   rubato-launch -n 2 -s 1 -- 055_a_store_of_your_own
// trains across processes; the launcher starts this program as coordinator and as server, too, which so
// holds its tables in this store. Worker 0 first trains in process and in the simulator.
#include <bit>
#include <cstdio>
#include <rubato/rubato.hpp>
#include <rubato/storage/store_host.hpp>
#include <rubato/testing/check_store.hpp>
#include <rubato/transport/tcp.hpp>
#include <vector>

namespace rb = rubato;

struct bfloat16_store {
  using value_type = float;
  static constexpr bool bounded = true;

  explicit bfloat16_store(rb::store_shape const& shape) : width(shape.width), values(shape.rows * width) {}

  void assign(rb::row_values<float> const& u) { for_each(u, [](auto& to, float x) { to = narrow(x); }); }
  void fold(std::span<rb::weighted_update<float> const> updates) {
    for (auto const& u : updates)
      for_each(u, [&](auto& to, float x) { to = narrow(widen(to) + static_cast<float>(u.weight) * x); });
  }
  void read(std::span<std::uint64_t const> rows, float* out) const {
    for (std::uint64_t const row : rows) copy(row, 1, out), out += width;
  }
  void copy(std::uint64_t first, std::uint64_t count, float* out) const {
    for (std::size_t i = first * width; i < (first + count) * width; ++i) *out++ = widen(values[i]);
  }
  std::size_t bytes() const { return values.size() * sizeof(std::uint16_t); }

  static float widen(std::uint16_t x) { return std::bit_cast<float>(std::uint32_t{x} << 16); }
  static std::uint16_t narrow(float x) {  // to the nearest, ties to even
    auto const bits = std::bit_cast<std::uint32_t>(x);
    return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  }
  template <class F>
  void for_each(rb::row_values<float> const& u, F f) {
    for (std::size_t i = 0; i < u.values.size(); ++i)
      f(values[(u.keyed ? u.rows[i / width] : u.first + i / width) * width + i % width], u.values[i]);
  }

  std::size_t width;
  std::vector<std::uint16_t> values;
};

struct bfloat16 : rb::dense<float> { using store = bfloat16_store; };

template <class Transport>
void train(char const* where, Transport const& transport) {
  rb::cluster cluster{transport, rb::ssp{.staleness = 1}, bfloat16{{.rows = 1'000}}};
  cluster.run([&](auto& worker) {  // where this process serves, it does so until all workers have left
    std::vector<float> w(1'000), delta(w.size());
    for (int i = 0; i < 100; ++i) {
      worker.pull(w);
      for (std::size_t k = 0; k < w.size(); ++k) delta[k] = 0.2F * (static_cast<float>(k % 7) - w[k]);
      worker.push(delta), worker.step();
    }
    if (worker.rank() == 0) std::printf("%s: parameter 5 is %.2f\n", where, static_cast<double>(w[5]));
  });
}

int main() {
  auto const across = rb::tcp::from_environment();
  if (across.place.as == rb::net::role::worker && across.place.rank == 0) {
    if (!rb::testing::check_store<bfloat16_store>({.tolerance = 1.0 / 256}).empty()) return 1;
    train("in process", rb::in_process{.workers = 2});
    train("simulated", rb::simulated{.workers = 2});
  }
  train("across processes", across);
}
