// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <type_traits>

#include "rubato/storage/concepts.hpp"
#include "rubato/storage/element_state.hpp"
#include "rubato/storage/velocity.hpp"

namespace rubato::detail {

/// What merges keep beside a store's rows, those that have any; takes no memory without.
template <table_store Store>
struct beside_rows {
  explicit beside_rows(store_shape const& s) : velocity(s), elements(s) {}
  /// As the other is. Nobody else may use either meanwhile.
  void become(beside_rows const& other) {
    velocity.become(other.velocity);
    elements.become(other.elements);
  }

  rubato::velocity<Store> velocity;
  [[no_unique_address]] std::conditional_t<moves_elements<Store>, element_state<Store>, no_element_state> elements;
};

}  // namespace rubato::detail
