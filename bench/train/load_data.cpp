// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/load_data.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "rubato/core/error.hpp"
#include "rubato/data/idx.hpp"
#include "rubato/data/libsvm.hpp"
#include "rubato/data/synthetic.hpp"
#include "rubato/data/synthetic_chiller.hpp"
#include "rubato/data/synthetic_digits.hpp"

namespace rubato::bench {
namespace {

namespace fs = std::filesystem;

constexpr double held_out_share = 0.2;

loaded_data hold_out(data::dataset const& all, std::string name, data_source const& from, std::uint64_t seed) {
  data::held_out const parts = all.split(held_out_share, seed);
  return {in_order(parts.train, from.shards, seed), parts.test, std::move(name)};
}

// ---- images

/// `text` with `from` replaced by `to`; nothing where it does not occur.
std::optional<std::string> replaced(std::string text, std::string_view from, std::string_view to) {
  std::size_t const at = text.find(from);
  if (at == std::string::npos) return std::nullopt;
  return text.replace(at, from.size(), to);
}

/// Whether it is there; a name too long for the system, such as that of a file beside one whose own just fits, is not.
bool is_there(fs::path const& file) {
  std::error_code ignored;  // reading it will tell
  return fs::exists(file, ignored);
}

/// The images that a path stands for, if it does.
std::optional<fs::path> images_at(std::string const& path) {
  if (fs::path(path).filename().string().find("idx3") != std::string::npos) return path;
  std::error_code ignored;  // reading it will tell
  if (!fs::is_directory(path, ignored)) return std::nullopt;
  for (char const* const name : {"train-images-idx3-ubyte.gz", "train-images-idx3-ubyte"})
    if (is_there(fs::path(path) / name)) return fs::path(path) / name;
  throw data_error(path + ": a directory, expected MNIST's train-images-idx3-ubyte(.gz) in it",
                   errc::io);
}

data::dataset read_images(fs::path const& images, std::size_t pool) {
  auto labels = replaced(images.filename().string(), "images", "labels");
  if (labels) labels = replaced(*labels, "idx3", "idx1");
  if (!labels)
    throw option_error("--data: " + images.string() +
                       ": expected a name with images-idx3, as labels are looked for by name");
  return data::read_idx_images(images.string(), (images.parent_path() / *labels).string(),
                               {.pool = pool});
}

loaded_data load_images(fs::path const& images, data_source const& from, std::uint64_t seed) {
  std::string name = fs::path(from.file).filename().string();
  data::dataset const all = read_images(images, from.pool);
  fs::path test = from.test_file;
  if (auto const beside = replaced(images.filename().string(), "train", "t10k");
      test.empty() && beside && is_there(images.parent_path() / *beside))
    test = images.parent_path() / *beside;
  if (test.empty()) return hold_out(all, std::move(name), from, seed);
  return {in_order(all, from.shards, seed), read_images(test, from.pool), std::move(name)};
}

// ---- LIBSVM

loaded_data load_libsvm(data_source const& from, std::uint64_t seed) {
  std::string name = fs::path(from.file).filename().string();
  bool const signs = from.labels == label_use::signs;
  data::libsvm_options const how{.labels = signs ? data::label_kind::binary
                                                 : data::label_kind::raw};
  data::dataset const all = data::read_libsvm(from.file, how);
  std::string test_file = from.test_file;
  if (test_file.empty() && is_there(from.file + ".t")) test_file = from.file + ".t";
  if (test_file.empty()) return hold_out(all, std::move(name), from, seed);
  return {in_order(all, from.shards, seed), data::read_libsvm(test_file, how), std::move(name)};
}

// ---- synthetic

/// The papers' sets in so small that a comparison with tuned rates takes seconds.
data::dataset make_sparse(bool url, data_source const& from, std::uint64_t seed) {
  auto s = url ? data::synthetic_options::url_like(0.01, seed)
               : data::synthetic_options::ctr_like(0.0001, seed);
  s.rows = from.rows.value_or(url ? 10'000 : 20'000);
  s.features = from.features.value_or(url ? 2'000 : 4'000);
  s.nonzeros_per_row = from.nonzeros.value_or(std::min<std::size_t>(url ? 50 : 20, s.features));
  if (s.nonzeros_per_row > s.features)
    throw option_error(fmt::format("--nonzeros: {} of a row, expected no more than the {} --features",
                                   s.nonzeros_per_row, s.features));
  return data::make_synthetic(s);
}

data::dataset make_digits(data_source const& from, std::uint64_t seed) {
  return data::make_synthetic_digits({.rows = from.rows.value_or(10'000), .seed = seed});
}

data::dataset make_chiller(data_source const& from, std::uint64_t seed) {
  data::chiller_options o{.seed = seed};
  if (from.rows) o.days = *from.rows / o.chillers + (*from.rows % o.chillers != 0 ? 1 : 0);
  return data::make_synthetic_chiller(o);
}

std::string synthetic_set(data_source const& from) {
  if (!from.synthetic.empty()) return from.synthetic;
  if (from.labels == label_use::signs) return "url";
  return from.labels == label_use::classes ? "digits" : "chiller";
}

loaded_data load_synthetic(data_source const& from, std::uint64_t seed) {
  std::string const set = synthetic_set(from);
  bool const sparse = set == "url" || set == "ctr";
  if (!sparse && set != "digits" && set != "chiller")
    throw option_error("--synthetic: there is no data set \"" + set +
                       "\", expected url, ctr, digits or chiller");
  if (!sparse && (from.features || from.nonzeros))
    throw option_error("--features, --nonzeros: are for --synthetic url and ctr, not " + set);
  data::dataset const all = sparse            ? make_sparse(set == "url", from, seed)
                            : set == "digits" ? make_digits(from, seed)
                                              : make_chiller(from, seed);
  return hold_out(all, "synthetic " + set, from, seed);
}

}  // namespace

loaded_data load_data(data_source const& from, std::uint64_t seed) {
  if (from.file.empty()) return load_synthetic(from, seed);
  if (auto const images = images_at(from.file)) return load_images(*images, from, seed);
  return load_libsvm(from, seed);
}

}  // namespace rubato::bench
