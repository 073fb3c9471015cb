// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <boost/core/demangle.hpp>
#include <cstring>
#include <string_view>
#include <typeinfo>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/core/machine_memory.hpp"
#include "rubato/core/mix.hpp"
#include "rubato/server/agreement.hpp"
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

inline std::string text_of_fingerprint(std::uint64_t n) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text(16, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, n /= 16) *digit = digits[n % 16];
  return text;
}

/// When reads go on. Who has a fingerprint is asked nothing.
inline std::string text_of_admission(admission_rule const& admission) {
  std::string const number = text_of_fingerprint(fingerprint(admission));
  if (admission.fingerprint()) return "one of its own, " + number;
  constexpr clock_index probe{10};
  admission_rule const copy = admission.unshared();
  return "reads at clock 10 need " + text_of_need(copy.need(probe, admission.bound(), {})) + ", or copies of " +
         text_of_need(copy.cache_need(probe, admission.bound(), {})) + " (" + number + ")";
}

inline std::string text_of_merge(merge_rule const& merge, staleness bound) {
  std::string const name = name_of_type(merge.type()), number = text_of_fingerprint(fingerprint(merge, bound));
  if (merge.fingerprint()) return name + " (" + number + ")";
  constexpr clock_index probe{10};
  commit_info const sample{
      .from = {}, .stamp = probe, .c_min = probe, .c_max = probe, .workers = 8, .version = {}};
  // All digits: two that differ are not to look the same.
  std::string text = name + " (of 8 workers: " + fmt::format("{}", merge.unshared().weight(sample));
  if (merge.decay()) text += ", decay " + fmt::format("{}", *merge.decay());
  if (element_rule const* const e = merge.elements())
    text += fmt::format(", {} slots{}{}", e->slots(), e->lazy() ? ", lazy" : "",
                        e->copy() == worker_copy::none ? "" : ", a copy for each worker");
  return text + ", " + number + ")";
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
inline std::string text_of_changes(table_changes const& c) {
  std::string text;
  for (table_copy const& one : c.copied)
    text += ", table " + std::to_string(one.to) + " from " + std::to_string(one.from);
  for (std::size_t const table : c.cleared) text += ", table " + std::to_string(table) + " at zero";
  for (table_function const& f : c.applied) text += ", a function of table " + std::to_string(f.table);
  return text.empty() ? text : text.substr(2);
}

/// When reads go on, and what they see. How often workers commit is their own business, but for the orders that
/// they take, and what a pace of the user's says of itself.
/// @param whose before the name of each part: which protocol, where there are several
inline std::string text_of_protocol(rules const& p, std::string const& whose) {
  std::string text = whose + "admission: " + text_of_admission(p.admission) + "; " + whose + "visibility: " +
                     name_of_type(p.visibility.type()) + " (" +
                     text_of_fingerprint(fingerprint(p.visibility, p.admission.bound())) + ")";
  std::string pace;
  if (auto const* orders = p.pace.orders()) pace = "orders " + name_of_type(*orders);
  if (auto const said = p.pace.fingerprint()) pace += (pace.empty() ? "" : ", ") + text_of_fingerprint(*said);
  if (!pace.empty()) text += "; " + whose + "pace: " + pace;
  if (p.filter)
    text += "; " + whose + "filter: " + name_of_type(p.filter->type()) + " (" +
            text_of_fingerprint(fingerprint(*p.filter)) + ")";
  return text;
}

inline std::string text_of_table(table_blueprint const& t) {
  std::string text = std::string(t.bounded() ? "dense " : "sparse ") + to_string(t.element()) +
                     (t.description().keeps_versions ? " in versions, " : ", ") + std::to_string(t.rows()) +
                     " rows of width " + std::to_string(t.width());
  if (auto const* store = t.description().own_store) text += " kept by " + name_of_type(*store);
  return text + ", placement " + text_of_fingerprint(places_of(t));
}

inline std::string text_of_codec(codec_rule const& c) {
  return name_of_type(c.type()) + " (" + text_of_fingerprint(fingerprint(c)) + ")";
}

/// What parts of a protocol cannot mean together.
inline void check(rules const& p) {
  auto const& rounds = p.visibility.rounds();
  if (!rounds && p.admission.by_round())
    throw option_error(
        "protocol: its admission waits for rounds, but its visibility knows none: use quorum or buffered");
  if (p.admission.heeds_some() && p.visibility.holds_back())
    throw option_error(
        "protocol: its admission waits for some of the workers, but its visibility holds back what these have "
        "committed: use eager");
  if (p.admission.extends() && p.admission.bound() == staleness::infinite())
    throw option_error(
        "protocol: its admission lets workers go on beyond what they need, expected a bound that is finite");
  if (p.admission.extends() && p.visibility.synchronized())
    throw option_error(
        "protocol: its admission goes by when commits come to a server, but under stable_cut the coordinator "
        "lets workers in: use eager or strict");
  if (p.admission.limits() && p.visibility.holds_back())
    throw option_error(
        "protocol: its admission limits what others have not seen of what is folded as it comes, but its "
        "visibility holds commits back: use eager");
  if (int{p.admission.heeds_some()} + int{p.admission.extends()} + int{p.admission.limits()} > 1)
    throw option_error(
        "protocol: its admission has more than one of heeds(), extra() and limit(), of which a server asks one");
  if (p.renews && (rounds || p.visibility.synchronized() || p.admission.lets_in_one_by_one()))
    throw option_error(std::string("protocol: it renews copies ahead of time, but its ") +
                       (p.admission.lets_in_one_by_one() ? "admission lets in" : "visibility grants") +
                       " each read for itself: leave reads() out, or go by clocks with eager or strict");
  if (!rounds) return;
  if (rounds->size == 0) throw option_error("protocol: a round of 0 commits is never there, expected 1 or more");
  if (p.admission.bound() != staleness::infinite())
    throw option_error("protocol: its admission promises that reads see what is s clocks old, which rounds may leave "
                       "out: use unbounded, each_round or sampled");
}

}  // namespace detail

table_blueprint::table_blueprint(std::size_t number, table_description description,
                                 std::span<rules const> protocols, std::uint32_t servers)
    : description_(detail::checked_size(number, std::move(description), servers)),
      where_(detail::located(number, description_, servers)),
      updates_(description_.codec.updates, description_.element, row_bytes()),
      answers_(description_.codec.answers, description_.element, row_bytes()),
      answers_by_key_(coding::by_row(description_.codec.answers, description_.element, row_bytes())) {
  for (rules const& p : protocols) {
    merges_.push_back(description_.merge.value_or(p.merge));
    check(number, p);
  }
  check(number);
}

void table_blueprint::check(std::size_t number, rules const& protocol) const {
  detail::check(protocol);
  merge_rule const& merge = description_.merge ? *description_.merge : protocol.merge;
  auto const refuse = [number](std::string const& what) { detail::refuse_table(number, what); };
  if (is_integral(description_.element) && !merge.exact())
    refuse("a table of integers needs an exact merge: write dense<T, sum> or sparse<T, sum>");
  if (merge.versioned() && !description_.keeps_versions)
    refuse("this merge keeps versions of the parameters: wrap the table in multi_version{…}");
  if (protocol.admission.limits() && (merge.versioned() || merge.decay() || merge.elements() != nullptr))
    refuse("its updates change more than their weight says, which this admission limits: use sum, average, scale or "
           "another merge by weight");
  if (protocol.admission.limits() && updates_)
    refuse("a codec carries a part of its updates to later commits, which this admission does not count: leave "
           ".codec.updates out");
  bool const carries = !description_.filter.off() && description_.filter.small == small_entries::carry;
  if (protocol.admission.limits() && (protocol.filter || carries))
    refuse("a filter carries a part of its updates to later commits, which this admission does not count: use " +
           std::string(protocol.filter ? "send_all" : ".filter.small = small_entries::drop"));
  bool const compares_with_read = merge.elements() != nullptr && merge.elements()->copy() == worker_copy::as_read;
  if (protocol.renews && (merge.versioned() || compares_with_read))
    refuse("this merge goes by what a worker has read, which is not what it renews ahead of time: leave reads() out");
  if (protocol.visibility.rounds() && merge.versioned())
    refuse("this merge counts versions of its own, which rounds do, too: use eager, strict or stable_cut with it");
  if (protocol.visibility.synchronized() && (merge.decay() || merge.elements() != nullptr))
    refuse("stable_cut reads commits in any order, which a merge with velocity cannot: use eager or "
           "strict visibility with it");
  if (merge.elements() != nullptr && description_.keeps_versions)
    refuse("this merge moves the parameters element by element, which multi_version{…} keeps in parts: use a dense "
           "or sparse table without versions");
  if (protocol.filter) check_filter(number, protocol, merge);
  if (merge.keeps_copies() && !description_.bounded)
    refuse("this merge keeps a copy of the table for each worker, so it needs all of its rows: use a dense table");
}

void table_blueprint::check_filter(std::size_t number, rules const& protocol, merge_rule const& merge) const {
  filter_rule const& filter = *protocol.filter;
  auto const refuse = [number](std::string const& what) { detail::refuse_table(number, what); };
  if (description_.filter.largest != 1)
    refuse("it sends the largest entries of commits, and the protocol has a filter of its own: leave .filter.largest "
           "out");
  if (!description_.filter.off())
    refuse(fmt::format("it leaves entries below {} out of commits, and the protocol has a filter of its own: set "
                       ".filter = {{.threshold = 0}}",
                       description_.filter.limit()));
  if (!filter.by_element()) return;
  if (is_integral(description_.element))
    refuse("the protocol's filter sends by value, as no exact sum can be: use it with tables of float or double");
  if (!description_.bounded)
    refuse("the protocol's filter compares entries with the parameters that a worker has read, so it needs all rows: "
           "use a dense table, or a filter by row");
  if (filter.slots() != 0 && merge.versioned())
    refuse("the protocol's filter sends what has changed since it sent last, and this merge weighs what is sent by its "
           "version: use another merge or a filter without slots");
  if (!filter.differences()) return;
  if (updates_)
    refuse("the protocol's filter sends by how much updates have changed, and a codec carries a part of that to the "
           "next one: leave .codec.updates out");
  if (!merge.keeps_sum())
    refuse("the protocol's filter sends by how much updates have changed, and this merge does not keep what it was "
           "sent: use mean_of_latest, or another filter");
  if (auto const& rounds = protocol.visibility.rounds(); rounds && rounds->late == late_commit::drop)
    refuse("the protocol's filter sends by how much updates have changed, and rounds leave out what comes late, which "
           "nobody sends again: use buffered, or another filter");
}

void table_blueprint::check(std::size_t number) const {
  auto const refuse = [number](std::string const& what) { detail::refuse_table(number, what); };
  table_description const& d = description_;
  d.filter.check();
  check_codec(number);
  std::uint64_t const rows = d.bounded ? d.rows : d.init_keys.size();
  for (key const k : d.init_keys)
    if (!where_.contains(k))
      refuse("init_keys holds " + std::to_string(k.value()) + ", expected keys below " +
             std::to_string(d.rows));
  std::vector<key> sorted(d.init_keys.begin(), d.init_keys.end());
  std::ranges::sort(sorted);
  if (auto const twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
    refuse("init_keys holds " + std::to_string(twice->value()) + " twice, expected each key once");
  std::size_t const given = d.init.size() / size_of(d.element);
  if ((!d.bounded || given != 0) && given != rows * d.width)
    refuse("init has " + std::to_string(given) + " values, expected " + std::to_string(rows * d.width) +
           (d.bounded ? " (rows x width)" : " (width for each of the init_keys)"));
}

void table_blueprint::check_codec(std::size_t number) const {
  for (coding const* c : {&updates_, &answers_}) {
    if (!*c) continue;
    std::string const name = detail::name_of_type(c->codec().type());
    if (is_integral(description_.element))
      detail::refuse_table(number, "its codec " + name + " writes float and double, and the table is of " +
                                       to_string(description_.element));
    if (c->codec().bytes(1) == 0 || c->coded_piece() == 0)
      detail::refuse_table(number, "its codec " + name + " writes values in no bytes, expected 1 or more");
  }
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

std::unique_ptr<table_host> table_blueprint::make_host(server_id s, threading t, block_memory* memory) const {
  auto made = description_.make_host({where_.rows_of(s), width(), t, may_be_looked_at(s) ? memory : nullptr});
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
    : protocols_(std::move(protocols)), changes_(std::move(changes)) {
  if (protocols_.empty()) throw option_error("protocols: a cluster needs at least one");
  if (tables.empty()) throw option_error("tables: a cluster needs at least one");
  for (std::uint32_t s = 0; s < servers; ++s) servers_.push_back(server_id{s});
  tables_.reserve(tables.size());
  for (std::size_t i = 0; i < tables.size(); ++i)
    tables_.emplace_back(i, std::move(tables[i]), protocols_, servers);
  for (rules const& p : protocols_)
    if (p.admission.limits() && servers != 1)
      throw option_error(
          "servers: there are " + std::to_string(servers) +
          ", but this admission limits what others have not "
          "seen, and workers that different servers let in could wait for each other for ever, expected 1");
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
      detail::refuse_table(f.table, std::string("a function of ") + to_string(f.element) +
                                        " is applied to it, expected " + to_string(tables_[f.table].element()));
    if (!f.change) detail::refuse_table(f.table, "a function is applied to it that is empty");
  }
  if (!c.moved) return;
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    tables_[i].check(i, *c.moved);
    if (tables_[i].answers())
      detail::refuse_table(i, "a stage brings it to where the workers are, which would round it as answers are: leave "
                              ".codec.answers out");
  }
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

std::uint64_t blueprint::bytes_of(server_id s) const {
  std::uint64_t sum = 0;  // tables are of 2^46 bytes at most
  for (table_blueprint const& t : tables_)
    if (t.bounded()) sum += t.where().rows_of(s) * t.row_bytes();
  return sum;
}

bool blueprint::versioned(std::size_t p) const noexcept {
  return std::ranges::any_of(tables_, [p](table_blueprint const& t) { return t.versioned(p); });
}

bool blueprint::keeps_copies(std::size_t p) const noexcept {
  return std::ranges::any_of(tables_, [p](table_blueprint const& t) { return t.merge(p).keeps_copies(); });
}

bool blueprint::by_age(std::size_t p) const noexcept {
  return std::ranges::any_of(tables_, [p](table_blueprint const& t) { return t.merge(p).by_age(); });
}

void blueprint::forget_initial_values() noexcept {
  for (table_blueprint& t : tables_) t.forget_initial_values();
}

std::string blueprint::agreement() const {
  std::string text = "servers: " + std::to_string(servers_.size());
  auto const add = [&text](std::string const& part) { text += "; " + part; };
  auto const of_protocol = [this](std::size_t p) {
    return protocols_.size() == 1 ? std::string() : "protocol " + std::to_string(p) + " ";
  };
  for (std::size_t p = 0; p < protocols_.size(); ++p) add(detail::text_of_protocol(protocols_[p], of_protocol(p)));
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    std::string const name = "table " + std::to_string(i);
    add(name + ": " + detail::text_of_table(tables_[i]));
    if (coding const& c = tables_[i].updates()) add("updates of " + name + ": " + detail::text_of_codec(c.codec()));
    if (coding const& c = tables_[i].answers()) add("answers of " + name + ": " + detail::text_of_codec(c.codec()));
    for (std::size_t p = 0; p < protocols_.size(); ++p)
      add(of_protocol(p) + "merge of " + name + ": " +
          detail::text_of_merge(tables_[i].merge(p), protocols_[p].admission.bound()));
  }
  for (std::size_t p = 0; p < changes_.size(); ++p) {
    if (auto const begins = detail::text_of_changes(changes_[p]); !begins.empty())
      add("beginning of runs of protocol " + std::to_string(p) + ": " + begins);
    if (auto const& r = changes_[p].moved) {
      std::string const whose = "protocol " + std::to_string(p) + " where the workers are, ";
      add(detail::text_of_protocol(*r, whose));
      add(whose + "merge: " + detail::text_of_merge(r->merge, r->admission.bound()));
    }
  }
  return text;
}

}  // namespace rubato
