// expect alone apart: a store of one's own needs #include <rubato/storage/store_host.hpp>
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/rubato.hpp>

namespace rb = rubato;

class half_store {
 public:
  using value_type = float;
  static constexpr bool bounded = true;

  explicit half_store(rb::store_shape const& shape);
  void assign(rb::row_values<float> const& rows);
  void fold(std::span<rb::weighted_update<float> const> updates);
  void read(std::span<std::uint64_t const> rows, float* out) const;
  void copy(std::uint64_t first, std::uint64_t count, float* out) const;
  std::size_t bytes() const;
};

struct half : rb::dense<float> {
  using store = half_store;
};

// The store is complete; what puts it into a server is not there.
rb::cluster cluster{rb::in_process{.workers = 3}, rb::ssp{}, half{{.rows = 10}}};
