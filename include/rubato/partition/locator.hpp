// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "rubato/partition/layout.hpp"

namespace rubato {

/// Finds the rows of a bounded table through its layout. Cheap to copy.
class bounded_locator {
 public:
  template <partition_policy Partition>
  bounded_locator(Partition const& partition, table_shape shape)
      : layout_(std::make_shared<layout const>(partition, shape)) {}

  [[nodiscard]] layout::place locate(key k) const noexcept { return layout_->locate(k); }
  [[nodiscard]] bool contains(key k) const noexcept { return k.value() < layout_->rows(); }
  [[nodiscard]] std::uint64_t rows_of(server_id s) const noexcept { return layout_->rows_of(s); }
  [[nodiscard]] layout const& rows() const noexcept { return *layout_; }

 private:
  std::shared_ptr<layout const> layout_;
};

/// Finds the rows of a sparse table by asking the partition; there a local row is the key itself.
template <partition_policy Partition>
class open_locator {
 public:
  open_locator(Partition partition, table_shape shape)
      : partition_(std::move(partition)), shape_(shape) {}

  /// @throws option_error when the partition names a server that there is not
  [[nodiscard]] layout::place locate(key k) const {
    server_id const s = partition_.server_of(k, shape_);
    check_server(s, k, shape_);
    return {s, k.value()};
  }
  [[nodiscard]] bool contains(key k) const noexcept {
    return shape_.rows == 0 || k.value() < shape_.rows;
  }
  /// Any number of rows may come.
  [[nodiscard]] std::uint64_t rows_of(server_id) const noexcept { return 0; }

 private:
  [[no_unique_address]] Partition partition_;
  table_shape shape_;
};

}  // namespace rubato
