// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "rubato/core/element.hpp"
#include "rubato/core/error.hpp"
#include "rubato/storage/concepts.hpp"
#include "rubato/storage/table_description.hpp"

namespace rubato {

/// Tables that a program chooses while it runs: as many as a model has layers, say, or as a file asks for. Stands in
/// a `cluster` in the place of tables whose types it knows; see `cluster<Transport, Protocol, table_list>`.
///
///     rubato::table_list tables;
///     for (auto const& layer : layers) tables.add(rubato::dense<float>{.rows = layer.size(), .init = layer});
///
/// Initial values are referred to until a cluster has been made of it.
class table_list {
 public:
  /// One more, of any kind. Returns its number.
  template <table_spec Table>
  std::size_t add(Table const& table) {
    return add(describe(table));
  }
  std::size_t add(table_description table) {
    tables_.push_back(std::move(table));
    return tables_.size() - 1;
  }

  [[nodiscard]] std::size_t size() const noexcept { return tables_.size(); }
  /// The tables, in the order in which they were added.
  [[nodiscard]] std::vector<table_description> const& descriptions() const noexcept { return tables_; }

 private:
  std::vector<table_description> tables_;
};

namespace detail {

/// @throws usage_error unless there is a table of this number, of these elements, and bounded or not
template <class At>
void expect_table(std::size_t number, std::size_t tables, At description_of, element_type element, bool bounded) {
  if (number >= tables)
    throw usage_error(errc::bad_option, "table " + std::to_string(number) +
                                            ": there is none, expected a number below " + std::to_string(tables));
  auto const text = [](element_type e, bool b) { return std::string(b ? "dense " : "sparse ") + to_string(e); };
  table_description const& is = description_of(number);
  if (is.element != element || is.bounded != bounded)
    throw usage_error(errc::bad_option, "table " + std::to_string(number) + ": it is asked for as " +
                                            text(element, bounded) + ", expected " + text(is.element, is.bounded));
}

}  // namespace detail

}  // namespace rubato
