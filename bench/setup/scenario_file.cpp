// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/setup/scenario_file.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "rubato/core/error.hpp"

namespace rubato::bench {
namespace {

using nlohmann::json;

/// One JSON object on its way into a struct. Members are taken one by one; `finish` rejects what
/// nobody has asked for, so that a misspelt member is an error and no silent default.
class object_reader {
 public:
  object_reader(json const& object, std::string path) : object_(object), path_(std::move(path)) {
    if (!object.is_object()) fail(path_, "an object");
  }

  template <class T>
  void read(char const* member, T& out) {
    known_ += known_.empty() ? member : std::string(", ") + member;
    auto const it = object_.find(member);
    if (it == object_.end()) return;
    ++taken_;
    convert(*it, path_ + '.' + member, out);
  }

  void finish() const {
    if (taken_ == object_.size()) return;
    for (auto const& [member, value] : object_.items())
      if ((", " + known_ + ",").find(", " + member + ",") == std::string::npos)
        throw option_error(path_ + ": there is no member \"" + member + "\", expected one of " +
                           known_);
  }

  /// The whole of a document.
  static void read_document(json const& root, std::string const& name, sim::scenario& out) {
    convert(root, name, out);
  }

  [[noreturn]] static void fail(std::string const& path, std::string const& expected) {
    throw option_error(path + " must be " + expected);
  }

 private:
  static void convert(json const& value, std::string const& path, double& out) {
    if (!value.is_number()) fail(path, "a number");
    out = value.get<double>();
  }
  static void convert(json const& value, std::string const& path, std::uint64_t& out) {
    if (!value.is_number_unsigned()) fail(path, "a whole number of 0 or more");
    out = value.get<std::uint64_t>();
  }
  static void convert(json const& value, std::string const& path, bool& out) {
    if (!value.is_boolean()) fail(path, "true or false");
    out = value.get<bool>();
  }
  static void convert(json const& value, std::string const& path, std::uint32_t& out) {
    std::uint64_t number = 0;
    convert(value, path, number);
    if (number > 0xffff'ffffU) fail(path, "a whole number below 2^32");
    out = static_cast<std::uint32_t>(number);
  }
  static void convert(json const& value, std::string const& path, worker_id& out) {
    std::uint64_t number = 0;
    convert(value, path, number);
    if (number > 0xffff'ffffU) fail(path, "a worker's number");
    out = worker_id(static_cast<std::uint32_t>(number));
  }
  static void convert(json const& value, std::string const& path, duration& out);
  static void convert(json const& value, std::string const& path, sim::distribution& out);
  template <class T>
  static void convert(json const& value, std::string const& path, std::vector<T>& out) {
    if (!value.is_array()) fail(path, "an array");
    out.clear();
    for (json const& element : value) {
      std::string const at = path + '[' + std::to_string(out.size()) + ']';
      convert(element, at, out.emplace_back());
    }
  }
  template <class Struct>
    requires std::is_aggregate_v<Struct>
  static void convert(json const& value, std::string const& path, Struct& out) {
    object_reader reader(value, path);
    members(reader, out);
    reader.finish();
  }

  static void members(object_reader& r, sim::heterogeneity& h) {
    r.read("level", h.level);
    r.read("slow_fraction", h.slow_fraction);
  }
  static void members(object_reader& r, sim::random_slowdown& s) {
    r.read("probability", s.probability);
    r.read("factor", s.factor);
  }
  static void members(object_reader& r, sim::slowness_change& c) {
    r.read("worker", c.worker);
    r.read("at", c.at);
    r.read("factor", c.factor);
  }
  static void members(object_reader& r, sim::speed_options& s) {
    r.read("work_cost", s.work_cost);
    r.read("slowness", s.slowness);
    r.read("heterogeneity", s.heterogeneity);
    r.read("random_slowdown", s.random_slowdown);
    r.read("jitter", s.jitter);
    r.read("changes", s.changes);
  }
  static void members(object_reader& r, sim::link_options& l) {
    r.read("latency", l.latency);
    r.read("jitter", l.jitter);
    r.read("bandwidth", l.bandwidth);
  }
  static void members(object_reader& r, sim::network_options& n) {
    r.read("worker_link", n.worker_link);
    r.read("local_link", n.local_link);
    r.read("server_bandwidth", n.server_bandwidth);
    r.read("header_bytes", n.header_bytes);
  }
  static void members(object_reader& r, sim::crash& c) {
    r.read("worker", c.worker);
    r.read("at", c.at);
  }
  static void members(object_reader& r, sim::machine_loss& l) {
    r.read("machine", l.machine);
    r.read("at", l.at);
  }
  static void members(object_reader& r, sim::join& j) { r.read("at", j.at); }
  static void members(object_reader& r, sim::scenario& s) {
    r.read("speed", s.speed);
    r.read("network", s.network);
    r.read("crashes", s.crashes);
    r.read("machine_losses", s.machine_losses);
    r.read("joins", s.joins);
    r.read("server_delay", s.server_delay);
    r.read("machine_of", s.machine_of);
    r.read("one_process_per_machine", s.one_process_per_machine);
    r.read("server_machine_of", s.server_machine_of);
    r.read("detection_delay", s.detection_delay);
    r.read("seed", s.seed);
  }

  static void members(object_reader& r, sim::constant& d) { r.read("value", d.value); }
  static void members(object_reader& r, sim::uniform& d) {
    r.read("low", d.low);
    r.read("high", d.high);
  }
  static void members(object_reader& r, sim::exponential& d) { r.read("mean", d.mean); }
  static void members(object_reader& r, sim::lognormal& d) {
    r.read("median", d.median);
    r.read("sigma", d.sigma);
  }
  static void members(object_reader& r, sim::pareto& d) {
    r.read("least", d.least);
    r.read("alpha", d.alpha);
    r.read("cap", d.cap);
  }

  json const& object_;
  std::string path_;
  std::string known_;  ///< the members asked for, with commas
  std::size_t taken_ = 0;
};

void object_reader::convert(json const& value, std::string const& path, duration& out) {
  char const* const expected = "a time, such as \"100us\" or a number of seconds";
  if (value.is_number()) {
    out = seconds(value.get<double>());
    return;
  }
  auto const time = value.is_string() ? parse_time(value.get<std::string>()) : std::nullopt;
  if (!time) fail(path, expected);
  out = *time;
}

void object_reader::convert(json const& value, std::string const& path, sim::distribution& out) {
  if (!value.is_object() || !value.contains("kind") || !value["kind"].is_string())
    fail(path, "an object with the member \"kind\"");
  std::string const kind = value["kind"];
  json parameters = value;
  parameters.erase("kind");
  auto const read = [&](auto d) {
    convert(parameters, path, d);
    out = d;
  };
  if (kind == "constant")
    read(sim::constant{});
  else if (kind == "uniform")
    read(sim::uniform{});
  else if (kind == "exponential")
    read(sim::exponential{});
  else if (kind == "lognormal")
    read(sim::lognormal{});
  else if (kind == "pareto")
    read(sim::pareto{});
  else
    fail(path + ".kind", "constant, uniform, exponential, lognormal or pareto");
}

/// Follows a parser into objects, to say where it stood when it failed, and that no member is there twice.
class followed_path {
 public:
  explicit followed_path(std::string name) : name_(std::move(name)) {}
  bool operator()(int depth, json::parse_event_t event, json& parsed) {
    auto const open = static_cast<std::size_t>(depth);
    if (event == json::parse_event_t::key) {
      members_.resize(open);  // those of arrays have no name
      members_.back() = '.' + parsed.get<std::string>();
      seen_.resize(open);
      if (!seen_.back().insert(members_.back()).second) throw option_error(text() + " is there twice, expected once");
    } else if (event == json::parse_event_t::object_end) {
      members_.resize(open);
      seen_.resize(open);
    }
    return true;
  }
  [[nodiscard]] std::string text() const { return std::accumulate(members_.begin(), members_.end(), name_); }

 private:
  std::string name_;
  std::vector<std::string> members_;
  std::vector<std::set<std::string>> seen_;  ///< the members of each object that is open
};

json parse_document(std::string_view text, std::string const& name) {
  followed_path path(name);
  try {
    return json::parse(text, std::ref(path));
  } catch (json::parse_error const& e) {
    throw option_error(name + ": no valid JSON: " + e.what());
  } catch (json::out_of_range const&) {
    throw option_error(path.text() + " has a number that is too large");
  }
}

}  // namespace

sim::scenario parse_scenario(std::string_view text, std::string_view name) {
  json const root = parse_document(text, std::string(name));
  sim::scenario s;
  object_reader::read_document(root, std::string(name), s);
  return s;
}

std::optional<duration> parse_time(std::string const& text) {
  static std::map<std::string, double, std::less<>> const units = {
      {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1.0}, {"", 1.0}};
  std::size_t used = 0;
  double number = 0;
  try {
    number = std::stod(text, &used);
  } catch (std::exception const&) {
    return std::nullopt;
  }
  auto const unit =
      units.find(text.substr(std::min(text.find_first_not_of(' ', used), text.size())));
  if (unit == units.end() || !std::isfinite(number)) return std::nullopt;
  return seconds(number * unit->second);
}

std::string built_in_scenario_names() {
  std::string names;
  for (named_scenario const& known : built_in_scenarios())
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  return names;
}

sim::scenario load_scenario(std::string const& name_or_file, std::size_t workers) {
  for (named_scenario const& known : built_in_scenarios())
    if (known.name == name_or_file) return known.make(workers);
  std::ifstream file(name_or_file, std::ios::binary);
  if (!file || std::filesystem::is_directory(name_or_file))
    throw option_error("--scenario: \"" + name_or_file +
                       "\" is neither a file that can be read nor one of " +
                       built_in_scenario_names());
  std::string const text{std::istreambuf_iterator<char>(file), {}};
  return parse_scenario(text, name_or_file);
}

}  // namespace rubato::bench
