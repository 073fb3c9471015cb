// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <memory>

#include "rubato/storage/dense_store.hpp"
#include "rubato/storage/impl/chunk_memory.ipp"
#include "rubato/storage/impl/on_demand_host.ipp"
#include "rubato/storage/impl/swap_file.ipp"
#include "rubato/storage/impl/table_change.ipp"
#include "rubato/storage/multi_version_store.hpp"
#include "rubato/storage/sparse_store.hpp"
#include "rubato/storage/store_host.hpp"
#include "rubato/storage/table_description.hpp"

/// The stores that come compiled: those of the library, of all standard elements.
namespace rubato {

template <class Store>
std::unique_ptr<table_host> detail::make_compiled_host(store_shape const& shape) {
  return make_host<Store>(shape);
}

#define RUBATO_COMPILE_STORE(Store) \
  template std::unique_ptr<table_host> detail::make_compiled_host<Store>(store_shape const&);
#define RUBATO_COMPILE_STORES(T)                           \
  RUBATO_COMPILE_STORE(dense_store<T>)                     \
  RUBATO_COMPILE_STORE(sparse_store<T>)                    \
  RUBATO_COMPILE_STORE(multi_version_store<dense_store<T>>) \
  RUBATO_COMPILE_STORE(multi_version_store<sparse_store<T>>)

RUBATO_COMPILE_STORES(float)
RUBATO_COMPILE_STORES(double)
RUBATO_COMPILE_STORES(std::int32_t)
RUBATO_COMPILE_STORES(std::int64_t)

#undef RUBATO_COMPILE_STORES
#undef RUBATO_COMPILE_STORE

}  // namespace rubato
