// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <bit>
#include <boost/core/demangle.hpp>
#include <cstring>
#include <typeinfo>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/core/machine_memory.hpp"
#include "rubato/core/mix.hpp"
#include "rubato/server/blueprint.hpp"
#include "rubato/storage/concepts.hpp"

namespace rubato {

namespace detail {

[[noreturn]] inline void refuse_table(std::size_t number, std::string const& what) {
  throw option_error("table " + std::to_string(number) + ": " + what);
}

/// Before memory is taken, and before the partition is asked for every row.
inline table_description checked_size(std::size_t number, table_description d, std::uint32_t servers) {
  if (servers == 0) throw option_error("servers: a cluster needs at least 1");
  if (d.width == 0) refuse_table(number, "width must be at least 1");
  if (d.bounded && d.rows == 0) refuse_table(number, "rows must be at least 1");
  std::uint64_t const elements_max = (std::uint64_t{1} << 46) / size_of(d.element);
  if (d.width > elements_max || (d.bounded && d.rows > elements_max / d.width))
    refuse_table(number, std::to_string(d.rows) + " rows of width " + std::to_string(d.width) +
                             " are more than memory can hold");
  if (std::uint64_t const row = d.width * size_of(d.element), there = machine_memory(); row > there)
    refuse_table(number, "a row of width " + std::to_string(d.width) + " takes " + text_of_bytes(row) +
                             ", and there are " + text_of_bytes(there) + " of memory");
  return d;
}

/// Layouts are where rows are looped over; whatever they refuse is said of their table.
inline locator located(std::size_t number, table_description const& d, std::uint32_t servers) {
  try {
    return {d.partition, {d.rows, servers}, d.bounded};
  } catch (option_error const& e) {
    refuse_table(number, e.what());
  }
}

/// A type's name without our namespace.
inline std::string name_of_type(std::type_info const& type) {
  std::string name = boost::core::demangle(type.name());
  constexpr std::string_view ours = "rubato::";
  for (auto at = name.find(ours); at != std::string::npos; at = name.find(ours))
    name.erase(at, ours.size());
  return name;
}

inline std::string text_of_need(clock_index c) {
  if (c == clock_index::lowest()) return "any";
  return c == clock_index::highest() ? "never" : std::to_string(c.value());
}

/// What policies answer to many questions, in five digits.
class digest {
 public:
  void add(clock_index c) { add_word(static_cast<std::uint64_t>(c.value())); }
  void add(double x) { add_word(std::bit_cast<std::uint64_t>(x)); }
  void add_word(std::uint64_t w) { words_ = mix64(words_ ^ w) + 1; }
  [[nodiscard]] std::string text() const { return std::to_string(words_ % 100'000); }

 private:
  std::uint64_t words_ = 0;
};

/// Also the workers may differ, where the policy asks who it is.
inline std::string digest_of(admission_rule const& admission) {
  digest d;
  std::uint32_t const workers = admission.asks_who() ? 1024 : 1;
  for (std::uint32_t w = 0; w < workers; ++w)
    for (std::int64_t const clock : {1, 10, 1000})
      for (std::int64_t const s : {0, 1, 5, 100}) {
        staleness const allowed = std::min(staleness{s}, admission.bound());
        d.add(admission.need(clock_index{clock}, allowed, worker_id{w}));
        d.add(admission.cache_need(clock_index{clock}, allowed, worker_id{w}));
      }
  return d.text();
}

/// What a merge does beyond weighing: velocity, and the worth of versions.
inline std::string text_of_merge(merge_rule const& merge) {
  constexpr clock_index probe{10};
  commit_info const sample{
      .from = {}, .stamp = probe, .c_min = probe, .c_max = probe, .workers = 8, .version = {}};
  std::string text =
      name_of_type(merge.type()) + " (of 8 workers: " + std::to_string(merge.weight(sample));
  if (merge.decay()) text += ", decay " + std::to_string(*merge.decay());
  if (merge.versioned()) {
    digest d;
    for (std::uint32_t const updates : {1U, 3U, 8U})
      for (std::int64_t const least : {9, 10, 11, 20}) {
        version_state const v{version_index{10}, updates};
        d.add(merge.share(v));
        auto const worth = merge.expire(
            v, {.least = version_index{least}, .c_min = clock_index{least}, .c_max = clock_index{least + 2}});
        d.add(worth.value_or(-1));
        auto const next = merge.version_after(
            {.own = version_index{9}, .top = version_index{least}, .c_max = clock_index{12}});
        d.add_word(static_cast<std::uint64_t>(next.value()));
      }
    text += ", versions " + d.text();
  }
  return text + ")";
}

/// Which servers hold the rows, in a number: of a bounded table all of them. Of another the first ones, and
/// what the partition says of itself, since nobody can ask for 2^64 keys.
inline std::uint64_t places_of(table_blueprint const& t) {
  std::uint64_t places = 0;
  auto const add = [&places](std::uint64_t word) { places = mix64(places ^ word) + 1; };
  if (t.bounded()) {
    for (layout::run const& r : t.where().rows().runs()) {
      add(r.first);
      add(r.server.value());
    }
    return places;
  }
  add(t.description().partition.digest());
  constexpr std::uint64_t probes = 4096;
  for (std::uint64_t k = 0; k < probes && (t.rows() == 0 || k < t.rows()); ++k)
    add(t.where().locate(key{k}).server.value());
  return places;
}

/// What is done to tables when a run begins; of functions, to which.
inline std::string text_of_changes(std::size_t protocol, table_changes const& c) {
  std::string text;
  for (table_copy const& one : c.copied) text += ", table " + std::to_string(one.to) + " from " + std::to_string(one.from);
  for (std::size_t const table : c.cleared) text += ", table " + std::to_string(table) + " at zero";
  for (table_function const& f : c.applied) text += ", a function of table " + std::to_string(f.table);
  return text.empty() ? text : "; runs of protocol " + std::to_string(protocol) + " begin with" + text.substr(1);
}

/// When reads go on, and what they see.
inline std::string text_of_protocol(rules const& p) {
  admission_rule const& admission = p.admission;
  constexpr clock_index probe{10};
  std::string text = "reads at clock 10 need " + text_of_need(admission.need(probe, admission.bound(), {})) +
                     ", or copies of " +
                     text_of_need(admission.cache_need(probe, admission.bound(), {})) + " (" +
                     digest_of(admission) + "); visibility " + name_of_type(p.visibility.type());
  if (auto const* orders = p.pace.orders()) text += "; orders " + name_of_type(*orders);
  return text;
}

}  // namespace detail

table_blueprint::table_blueprint(std::size_t number, table_description description,
                                 std::span<rules const> protocols, std::uint32_t servers)
    : description_(detail::checked_size(number, std::move(description), servers)),
      where_(detail::located(number, description_, servers)) {
  for (rules const& p : protocols) {
    merges_.push_back(description_.merge.value_or(p.merge));
    check(number, p);
  }
  check(number);
}

void table_blueprint::check(std::size_t number, rules const& protocol) const {
  merge_rule const& merge = description_.merge ? *description_.merge : protocol.merge;
  auto const refuse = [number](std::string const& what) { detail::refuse_table(number, what); };
  if (is_integral(description_.element) && !merge.exact())
    refuse("a table of integers needs an exact merge: write dense<T, sum> or sparse<T, sum>");
  if (merge.versioned() && !description_.keeps_versions)
    refuse("this merge keeps versions of the parameters: wrap the table in multi_version{…}");
  if (protocol.visibility.synchronized() && merge.decay())
    refuse("stable_cut reads commits in any order, which a merge with velocity cannot: use eager or "
           "strict visibility with it");
}

void table_blueprint::check(std::size_t number) const {
  auto const refuse = [number](std::string const& what) { detail::refuse_table(number, what); };
  table_description const& d = description_;
  d.filter.check();
  std::uint64_t const rows = d.bounded ? d.rows : d.init_keys.size();
  for (key const k : d.init_keys)
    if (!where_.contains(k))
      refuse("init_keys holds " + std::to_string(k.value()) + ", expected keys below " +
             std::to_string(d.rows));
  std::size_t const given = d.init.size() / size_of(d.element);
  if ((!d.bounded || given != 0) && given != rows * d.width)
    refuse("init has " + std::to_string(given) + " values, expected " +
           std::to_string(rows * d.width) + " (rows x width)");
}

update table_blueprint::initial_values(server_id s) const {
  update u;
  if (description_.init.empty()) return u;
  std::size_t const row = row_bytes();
  if (bounded()) {
    u.whole = true;
    u.values.reserve_bytes(static_cast<std::size_t>(where_.rows_of(s)) * row);
    for (std::size_t const i : where_.rows().runs_of(s)) {
      layout::run const& r = where_.rows().runs()[i];
      u.values.append(description_.init.subspan(static_cast<std::size_t>(r.first) * row,
                                                static_cast<std::size_t>(r.rows) * row));
    }
    return u;
  }
  for (std::size_t i = 0; i < description_.init_keys.size(); ++i)
    if (layout::place const at = where_.locate(description_.init_keys[i]); at.server == s) {
      u.rows.push_back(at.local);
      u.values.append(description_.init.subspan(i * row, row));
    }
  return u;
}

std::unique_ptr<table_host> table_blueprint::make_host(server_id s, threading t) const {
  auto made = description_.make_host({where_.rows_of(s), width(), t});
  if (update const first = initial_values(s); !first.empty()) made->assign(first);
  return made;
}

void table_blueprint::forget_initial_values() noexcept {
  description_.init = {};
  description_.init_keys = {};
}

void table_blueprint::assemble(std::span<table_state const> states, std::byte* out) const {
  std::size_t const row = row_bytes();
  for (layout::run const& r : where_.rows().runs())
    states[r.server.index()].copy(static_cast<std::size_t>(r.local_first) * row,
                                  static_cast<std::size_t>(r.rows) * row,
                                  out + static_cast<std::size_t>(r.first) * row);
}

blueprint::blueprint(std::vector<rules> protocols, std::uint32_t servers,
                     std::vector<table_description> tables, std::vector<table_changes> changes)
    : protocols_(std::move(protocols)), servers_(servers), changes_(std::move(changes)) {
  if (protocols_.empty()) throw option_error("protocols: a cluster needs at least one");
  if (tables.empty()) throw option_error("tables: a cluster needs at least one");
  tables_.reserve(tables.size());
  for (std::size_t i = 0; i < tables.size(); ++i)
    tables_.emplace_back(i, std::move(tables[i]), protocols_, servers);
  changes_.resize(protocols_.size());
  for (table_changes const& c : changes_) check(c);
}

void blueprint::check(table_changes const& c) const {
  auto const known = [this](std::size_t table, char const* what) {
    if (table >= tables_.size())
      throw option_error("stage: there is no table " + std::to_string(table) + ' ' + what + ", expected one below " +
                         std::to_string(tables_.size()));
  };
  for (std::size_t const table : c.cleared) known(table, "to clear");
  if (!std::ranges::is_sorted(c.cleared, std::ranges::less_equal{}))
    throw option_error("stage: the tables to clear must be in ascending order, each once");
  for (table_copy const& one : c.copied) {
    known(one.to, "to copy to");
    known(one.from, "to copy");
    check(one);
    if (std::ranges::find(c.cleared, one.to) != c.cleared.end())
      detail::refuse_table(one.to, "it is copied to and cleared, expected one of both");
  }
  for (table_function const& f : c.applied) {
    known(f.table, "to apply a function to");
    if (f.element != tables_[f.table].element())
      detail::refuse_table(f.table, std::string("a function of ") + to_string(f.element) + " is applied to it, expected " +
                                        to_string(tables_[f.table].element()));
    if (!f.change) detail::refuse_table(f.table, "a function is applied to it that is empty");
  }
  if (c.moved)
    for (std::size_t i = 0; i < tables_.size(); ++i) tables_[i].check(i, *c.moved);
}

/// Rows are copied where they are, so they must be at the same places.
void blueprint::check(table_copy const& c) const {
  table_blueprint const &to = tables_[c.to], &from = tables_[c.from];
  auto const refuse = [&](char const* expected) {
    detail::refuse_table(c.to, "table " + std::to_string(c.from) + " is copied to it, expected " + expected);
  };
  if (c.to == c.from) refuse("another one");
  if (to.bounded() != from.bounded()) refuse("two that are dense, or two that are sparse");
  if (to.element() != from.element()) refuse("one of the same element");
  if (to.width() != from.width() || to.rows() != from.rows()) refuse("one of as many rows, of the same width");
  if (detail::places_of(to) != detail::places_of(from)) refuse("one of the same partition");
}

void blueprint::check_memory(std::optional<server_id> of) const {
  std::uint64_t const there = machine_memory();
  std::string const what_there_is = ", and there are " + text_of_bytes(there) + " of memory";
  double together = 0;  // sums of large ones must not begin at 0 again
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    table_blueprint const& t = tables_[i];
    if (!t.bounded() || t.description().own_store != nullptr) continue;
    std::uint64_t const rows = of ? t.where().rows_of(*of) : t.rows();
    std::uint64_t const bytes = rows * t.row_bytes();
    together += static_cast<double>(bytes);
    if (bytes > there)
      detail::refuse_table(i, std::to_string(rows) + " rows of width " + std::to_string(t.width()) + " of " +
                                  to_string(t.element()) + (of ? " on server " + std::to_string(of->value()) : "") +
                                  " take " + text_of_bytes(bytes) + what_there_is);
  }
  if (together > static_cast<double>(there))
    throw option_error("tables: together they take " + text_of_bytes(static_cast<std::uint64_t>(together)) +
                       what_there_is);
}

bool blueprint::versioned(std::size_t p) const noexcept {
  return std::ranges::any_of(tables_, [p](table_blueprint const& t) { return t.versioned(p); });
}

void blueprint::forget_initial_values() noexcept {
  for (table_blueprint& t : tables_) t.forget_initial_values();
}

std::string blueprint::agreement() const {
  std::string text;
  for (rules const& p : protocols_) text += (text.empty() ? "" : "; or ") + detail::text_of_protocol(p);
  text += "; " + std::to_string(servers_) + " servers";
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    table_blueprint const& t = tables_[i];
    text += "; table " + std::to_string(i) + ": " + (t.bounded() ? "dense " : "sparse ") +
            to_string(t.element()) + (t.description().keeps_versions ? " in versions, " : ", ") +
            std::to_string(t.rows()) + " rows of width " + std::to_string(t.width());
    if (auto const* store = t.description().own_store) text += " kept by " + detail::name_of_type(*store);
    for (std::size_t p = 0; p < protocols_.size(); ++p)
      text += (p == 0 ? ", merge " : " or ") + detail::text_of_merge(t.merge(p));
    text += ", placement " + std::to_string(detail::places_of(t) % 100'000);
  }
  for (std::size_t p = 0; p < changes_.size(); ++p) {
    text += detail::text_of_changes(p, changes_[p]);
    if (auto const& r = changes_[p].moved)
      text += "; runs of protocol " + std::to_string(p) + " have the tables where the workers are: " +
              detail::text_of_protocol(*r) + ", merge " + detail::text_of_merge(r->merge);
  }
  return text;
}

}  // namespace rubato
