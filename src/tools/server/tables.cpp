// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "src/tools/server/tables.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/partition/hash.hpp"
#include "rubato/partition/range.hpp"
#include "rubato/partition/range_hash.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/storage/bfloat16.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/storage/int8_blocks.hpp"
#include "rubato/storage/multi_version.hpp"
#include "rubato/storage/sparse.hpp"

namespace rubato::server_tool {

namespace {

/// An option's values: one for each table, or one for all.
class value_list {
 public:
  value_list(std::string option, std::string_view text) : option_(std::move(option)) {
    for (auto end = text.find(','); end != std::string_view::npos; end = text.find(',')) {
      values_.emplace_back(text.substr(0, end));
      text.remove_prefix(end + 1);
    }
    values_.emplace_back(text);
  }

  [[nodiscard]] std::size_t size() const noexcept { return values_.size(); }

  void check_size(std::size_t tables) const {
    if (size() == 1 || size() == tables) return;
    throw option_error(option_ + ": " + std::to_string(size()) + " values for " +
                       std::to_string(tables) + " tables, expected 1 or " + std::to_string(tables));
  }

  [[nodiscard]] std::string const& one_of(std::vector<std::string_view> const& names,
                                          std::size_t table) const {
    std::string const& given = values_[place_of(table)];
    if (std::ranges::find(names, given) != names.end()) return given;
    std::string expected;
    for (auto const name : names)
      expected.append(expected.empty() ? "" : name == names.back() ? " or " : ", ").append(name);
    complain(table, expected);
  }

  /// At least `least`.
  template <class Number>
  [[nodiscard]] Number number(Number least, std::size_t table) const {
    std::string const& given = values_[place_of(table)];
    Number n = 0;
    auto const [end, problem] = std::from_chars(given.data(), given.data() + given.size(), n);
    if (problem == std::errc{} && end == given.data() + given.size() && n >= least) return n;
    complain(table, "a whole number from " + std::to_string(least) + " to 2^64 - 1");
  }

 private:
  [[nodiscard]] std::size_t place_of(std::size_t table) const noexcept {
    return size() == 1 ? 0 : table;
  }

  [[noreturn]] void complain(std::size_t table, std::string const& expected) const {
    std::string const which = size() == 1 ? "" : "table " + std::to_string(table) + ": ";
    throw option_error(option_ + ": " + which + "\"" + values_[place_of(table)] + "\", expected " +
                       expected);
  }

  std::string option_;
  std::vector<std::string> values_;
};

partition_rule partition_from(std::string_view name) {
  if (name == "range") return range{};
  if (name == "hash") return hash{};
  return range_hash{};
}

codec_rule codec_from(std::string_view name) {
  if (name == "bfloat16") return bfloat16{};
  if (name == "int8") return int8_blocks{};
  return {};
}

template <class T>
table_description description_of_elements(table_options const& o) {
  auto const versioned_or_not = [&](auto table) {
    table.rows = o.rows;
    table.width = o.width;
    return o.is_versioned() ? describe(multi_version{table}) : describe(table);
  };
  return o.is_sparse() ? versioned_or_not(sparse<T>{}) : versioned_or_not(dense<T>{});
}

}  // namespace

std::vector<table_options> tables_from(table_texts const& t) {
  value_list const storages("--storage", t.storage);
  value_list const types("--type", t.type);
  value_list const merges("--merge", t.merge);
  value_list const partitions("--partition", t.partition);
  value_list const update_codecs("--update-codec", t.update_codec);
  value_list const answer_codecs("--answer-codec", t.answer_codec);
  value_list const rows("--rows", t.rows);
  value_list const widths("--width", t.width);
  auto const lists = {&storages, &types, &merges, &partitions, &update_codecs, &answer_codecs, &rows, &widths};
  std::size_t count = 1;
  for (auto const* list : lists) count = std::max(count, list->size());
  for (auto const* list : lists) list->check_size(count);
  std::vector<table_options> tables(count);
  for (std::size_t i = 0; i < count; ++i)
    tables[i] = {
        .storage = storages.one_of({"dense", "sparse", "multi_version", "multi_version_sparse"}, i),
        .type = types.one_of({"float", "double", "int32", "int64"}, i),
        .merge = merges.one_of({"protocol", "sum", "average"}, i),
        .partition = partitions.one_of({"range", "hash", "range_hash"}, i),
        .update_codec = update_codecs.one_of({"none", "bfloat16", "int8"}, i),
        .answer_codec = answer_codecs.one_of({"none", "bfloat16", "int8"}, i),
        .rows = rows.number<std::uint64_t>(0, i),
        .width = widths.number<std::size_t>(1, i)};
  return tables;
}

table_description description_of(table_options const& t) {
  auto d = t.type == "double"  ? description_of_elements<double>(t)
           : t.type == "int32" ? description_of_elements<std::int32_t>(t)
           : t.type == "int64" ? description_of_elements<std::int64_t>(t)
                               : description_of_elements<float>(t);
  d.partition = partition_from(t.partition);
  d.codec = {.updates = codec_from(t.update_codec), .answers = codec_from(t.answer_codec)};
  if (t.merge == "sum") d.merge = sum{};
  if (t.merge == "average") d.merge = average{};
  return d;
}

}  // namespace rubato::server_tool
