// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>

#include "rubato/core/element.hpp"
#include "rubato/server/blueprint.hpp"
#include "rubato/storage/table_list.hpp"
#include "rubato/worker/worker_core.hpp"
#include "rubato/worker/worker_table.hpp"

namespace rubato {

/// What the training body holds where tables are chosen while the program runs, see `table_list`: a worker that is
/// told with each table of what elements it is. What these handles do is said at `worker_table`.
///
///     cluster.run([&](rubato::table_list_worker& worker) {  // or `auto&`, and `worker.template dense<float>(i)`
///       worker.dense<float>(i).pull(layer[i]);
///       worker.sparse<std::int32_t>(last).push(words, counts);
///     });
///
/// Thread safety: belongs to the thread (or fiber) that the body runs in.
class table_list_worker : public worker_core {
 public:
  /// Made by the cluster.
  explicit table_list_worker(worker_setup const& setup) : worker_core(setup), plan_(setup.plan) {}

  /// How many tables there are.
  [[nodiscard]] std::size_t tables() const noexcept { return plan_.tables().size(); }

  /// Table `i`, which holds every row. @throws usage_error when it does not, is of other elements, or is not there
  template <parameter T>
  [[nodiscard]] auto dense(std::size_t i) {
    return handle<T, true>(i);
  }
  /// Table `i`, which holds the touched rows. @throws usage_error as above
  template <parameter T>
  [[nodiscard]] auto sparse(std::size_t i) {
    return handle<T, false>(i);
  }

 private:
  template <class, parameter T, bool>
  friend class worker_table;

  template <parameter T, bool Bounded>
  [[nodiscard]] worker_table<table_list_worker, T, Bounded> handle(std::size_t i) {
    auto const description_of = [this](std::size_t k) -> auto const& { return plan_.table(k).description(); };
    detail::expect_table(i, tables(), description_of, element_type_of<T>(), Bounded);
    return {*this, i};
  }

  blueprint const& plan_;
};

}  // namespace rubato
