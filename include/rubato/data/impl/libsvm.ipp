// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/data/file_block.hpp"
#include "rubato/data/libsvm.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "rubato/core/error.hpp"
#include "rubato/data/impl/gzip_file.hpp"
#include "rubato/data/impl/quoted.hpp"
#include "rubato/data/impl/scanner.hpp"

namespace rubato::data {
namespace {

/// What a label means under one kind, if it has a meaning there.
std::optional<float> meaning(label_kind kind, float label) noexcept {
  switch (kind) {
    case label_kind::plus_minus_one:
      if (label == -1 || label == 1) return label;
      break;
    case label_kind::zero_one:
      if (label == 0 || label == 1) return label == 0 ? -1.0F : 1.0F;
      break;
    case label_kind::one_two:
      if (label == 1 || label == 2) return label == 1 ? -1.0F : 1.0F;
      break;
    case label_kind::raw:
    case label_kind::binary:
      return label;
  }
  return std::nullopt;
}

/// Finds out which kind of labels a file has, one label at a time.
class label_rule {
 public:
  explicit label_rule(label_kind kind) : kinds_{kind} {
    // In this order, so that a lone 1 is positive.
    if (kind == label_kind::binary) {
      kinds_ = {label_kind::plus_minus_one, label_kind::zero_one, label_kind::one_two};
    }
  }

  /// Rules out the kinds that do not have this label. False, and no change, if none would be left.
  bool accept(float label) {
    auto const foreign = [=](label_kind kind) { return !meaning(kind, label); };
    if (std::all_of(kinds_.begin(), kinds_.end(), foreign)) return false;
    std::erase_if(kinds_, foreign);
    return true;
  }

  [[nodiscard]] float map(float label) const { return meaning(kinds_.front(), label).value(); }

  [[nodiscard]] std::string expected() const {
    std::string text;
    for (label_kind const kind : kinds_) {
      if (!text.empty()) text += " or ";
      text += kind == label_kind::plus_minus_one ? "-1/+1"
              : kind == label_kind::zero_one     ? "0/1"
                                                 : "1/2";
    }
    return text;
  }

 private:
  std::vector<label_kind> kinds_;  // those still possible; never empty
};

class parser {
 public:
  parser(scanner in, std::string_view name, libsvm_options const& options)
      : in_(std::move(in)),
        name_(name),
        raw_labels_(options.labels == label_kind::raw),
        index_max_(options.features != 0 ? options.features : options.features_max),
        labels_(options.labels),
        rows_(options.features) {}

  dataset parse() {
    in_.skip_byte_order_mark();
    read_lines(std::numeric_limits<std::uint64_t>::max());
    if (rows_.size() == 0) {
      throw data_error(
          fmt::format("{}: no examples, expected lines of 'label index:value ...'", name_));
    }
    return build();
  }

  /// The lines that begin at a byte before `end`, without the rest of one that begins at none of them.
  dataset parse_block(std::uint64_t end, bool first) {
    if (first) {
      in_.skip_byte_order_mark();
      if (end > 0) end = std::max(end, in_.position() + 1);  // the mark is of the first line, which begins here
    } else {
      in_.skip_line();
    }
    read_lines(end);
    return build();
  }

 private:
  void read_lines(std::uint64_t end) {
    for (; !in_.at_end() && in_.position() < end; ++line_) {
      in_.skip_blanks();
      if (!in_.at_line_end()) read_row();
      in_.skip_line();
    }
  }

  dataset build() {
    if (!raw_labels_) rows_.map_labels([this](float label) { return labels_.map(label); });
    return rows_.build();
  }

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> reason, Args&&... args) const {
    throw data_error(
        fmt::format("{}:{}: {}", name_, line_, fmt::format(reason, std::forward<Args>(args)...)));
  }

  void read_row() {
    float const label = read_label(next_field());
    indices_.clear();
    values_.clear();
    for (in_.skip_blanks(); !in_.at_line_end(); in_.skip_blanks()) read_pair(next_field());
    rows_.add(label, indices_, values_);
  }

  std::string_view next_field() {
    std::string_view const field = in_.field();
    if (field.size() > scanner::field_size_max) {
      fail("field {} goes on for more than {} bytes, expected a blank earlier", quoted(field),
           scanner::field_size_max);
    }
    return field;
  }

  float read_label(std::string_view field) {
    float const label = read_number("label", field, "a number, then index:value pairs");
    if (!raw_labels_ && !labels_.accept(label)) {
      fail("label {} is not one of this file's kind, expected {}", quoted(field),
           labels_.expected());
    }
    return label;
  }

  void read_pair(std::string_view field) {
    std::size_t const colon = field.find(':');
    if (colon == std::string_view::npos) {
      fail("no colon in {}, expected index:value", quoted(field));
    }
    if (field.substr(0, colon) == "qid") {
      fail("{} belongs to ranking data, which is not supported, expected index:value",
           quoted(field));
    }
    indices_.push_back(read_index(field.substr(0, colon)));
    values_.push_back(read_number("value", field.substr(colon + 1), "index:value"));
  }

  std::uint32_t read_index(std::string_view text) {
    std::uint64_t index = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
    if (error == std::errc::invalid_argument || end != text.data() + text.size()) {
      fail("index {} is not a whole number, expected index:value", quoted(text));
    }
    if (error == std::errc::result_out_of_range || index > index_max_) {
      fail("index {} is too large, expected at most {}", quoted(text), index_max_);
    }
    if (index == 0) fail("index 0, expected indices from 1 on");
    check_order(index);
    return static_cast<std::uint32_t>(index - 1);
  }

  void check_order(std::uint64_t index) const {
    if (indices_.empty()) return;
    std::uint64_t const before = std::uint64_t{indices_.back()} + 1;
    if (index == before) fail("index {} occurs twice, expected increasing indices", index);
    if (index < before) {
      fail("index {} comes after {}, expected increasing indices", index, before);
    }
  }

  float read_number(char const* what, std::string_view text, char const* expected) const {
    std::string_view digits = text;
    bool const plus = digits.starts_with('+');  // from_chars knows no plus sign
    if (plus) digits.remove_prefix(1);
    double number = 0;
    auto const [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error == std::errc::invalid_argument || end != digits.data() + digits.size() ||
        (plus && digits.starts_with('-'))) {
      fail("{} {} is not a number, expected {}", what, quoted(text), expected);
    }
    if (error == std::errc{} && !std::isfinite(number)) {
      fail("{} {} is not finite, expected a finite number", what, quoted(text));
    }
    auto const rounded = static_cast<float>(number);  // 3.4028235e38, above the largest float, is a name of it
    if (error != std::errc{} || !std::isfinite(rounded) || (number != 0 && rounded == 0)) {
      fail("{} {} is out of range, expected 0 or a magnitude between 1e-45 and 3.4e38", what,
           quoted(text));
    }
    return rounded;
  }

  scanner in_;
  std::string_view name_;
  bool raw_labels_;
  std::uint64_t index_max_;
  label_rule labels_;
  dataset_builder rows_;
  std::size_t line_ = 1;
  std::vector<std::uint32_t> indices_;
  std::vector<float> values_;
};

void validate(libsvm_options const& options) {
  constexpr std::uint64_t limit = std::uint64_t{1} << 32;
  if (options.features > limit) {
    throw option_error(
        fmt::format("libsvm_options: features is {}, expected at most 2^32", options.features));
  }
  if (options.features_max == 0 || options.features_max > limit) {
    throw option_error(fmt::format("libsvm_options: features_max is {}, expected 1 to 2^32",
                                   options.features_max));
  }
}

}  // namespace

dataset read_libsvm(std::string const& path, libsvm_options const& options) {
  validate(options);
  gzip_file file(path);
  return parser(scanner(file), path, options).parse();
}

dataset read_libsvm(file_block const& block, libsvm_options const& options) {
  validate(options);
  if (options.labels == label_kind::binary)
    throw option_error("libsvm_options: labels is binary, which a block may not show, expected a kind");
  if (options.features == 0)
    throw option_error("libsvm_options: features is 0, which a block may not show, expected their number");
  gzip_file file(block.file);
  std::uint64_t const before = block.begin == 0 ? 0 : block.begin - 1;  // is that the end of a line?
  if (before != 0) file.go_to(before);
  std::string const name = block.begin == 0 ? block.file : fmt::format("{} from byte {}", block.file, block.begin);
  return parser(scanner(file), name, options).parse_block(block.end - std::min(before, block.end), block.begin == 0);
}

dataset parse_libsvm(std::string_view text, std::string_view name, libsvm_options const& options) {
  validate(options);
  return parser(scanner(text), name, options).parse();
}

}  // namespace rubato::data
