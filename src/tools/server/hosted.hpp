// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <variant>

#include "rubato/cluster/blueprint.hpp"
#include "rubato/core/error.hpp"
#include "rubato/core/null_mutex.hpp"
#include "rubato/partition/hash.hpp"
#include "rubato/partition/range.hpp"
#include "rubato/partition/range_hash.hpp"
#include "rubato/protocol/admission.hpp"
#include "rubato/protocol/pace.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/storage/multi_version.hpp"
#include "rubato/storage/sparse.hpp"
#include "rubato/transport/tcp/agreement.hpp"
#include "rubato/transport/tcp/server_node.hpp"
#include "src/tools/server/conducted.hpp"
#include "src/tools/server/host.hpp"

namespace rubato::server_tool {

/// The admission that was named on the command line.
class named_admission {
 public:
  explicit named_admission(options const& o) {
    if (o.protocol == "asp" || o.protocol == "adsp") named_ = unbounded{};
    else if (o.protocol == "bsp" || o.protocol.ends_with("ada_comm")) named_ = barrier{};
    else named_ = bounded_staleness{o.staleness};
  }

  [[nodiscard]] staleness bound() const noexcept {
    return std::visit([](auto const& a) { return a.bound(); }, named_);
  }
  [[nodiscard]] clock_index need(clock_index c, staleness read) const noexcept {
    return std::visit([&](auto const& a) { return a.need(c, read); }, named_);
  }
  [[nodiscard]] clock_index cache_need(clock_index c, staleness read) const noexcept {
    return std::visit([&](auto const& a) { return a.cache_need(c, read); }, named_);
  }

 private:
  std::variant<unbounded, barrier, bounded_staleness> named_;
};
static_assert(admission_policy<named_admission>);

/// The partition that was named on the command line.
class named_partition {
 public:
  explicit named_partition(std::string_view name)
      : kind_(name == "range" ? kind::range : name == "hash" ? kind::hash : kind::range_hash) {}
  named_partition() = default;

  [[nodiscard]] constexpr server_id server_of(key k, table_shape shape) const noexcept {
    switch (kind_) {
      case kind::range: return range{}.server_of(k, shape);
      case kind::hash: return hash{}.server_of(k, shape);
      case kind::range_hash: break;
    }
    return range_hash{}.server_of(k, shape);
  }

 private:
  enum class kind : std::uint8_t { range, hash, range_hash };
  kind kind_ = kind::range_hash;
};

/// A server needs no pace, whatever that of its workers.
template <class Visibility, class Merge>
struct hosted_protocol {
  named_admission who_waits;
  Merge fold;

  [[nodiscard]] named_admission admission() const noexcept { return who_waits; }
  [[nodiscard]] Visibility visibility() const noexcept { return {}; }
  [[nodiscard]] Merge merge() const noexcept { return fold; }
  [[nodiscard]] every_step pace() const noexcept { return {}; }
  [[nodiscard]] static constexpr std::string_view name() noexcept { return "hosted"; }
};

template <class Plan>
class hosted final : public host {
 public:
  hosted(Plan p, options const& o)
      : plan_(std::move(p)),
        node_(plan_, detail::agreement(plan_, name_of_orders(o)), o.place,
              std::uint64_t{1} << 30) {}

  void run() override { node_.run(); }
  void stop() noexcept override { node_.stop(); }
  [[nodiscard]] server_stats const& stats() const noexcept override { return node_.stats(); }
  [[nodiscard]] net::address bound() const override { return node_.bound(); }

 private:
  Plan plan_;
  detail::server_node<Plan> node_;
};

/// A table of this kind, with versions where the merge keeps them.
template <class Protocol, class Kind>
[[nodiscard]] auto table_from(table_options const& o) {
  Kind t{.partition = named_partition(o.partition)};
  t.rows = o.rows;
  t.width = o.width;
  if constexpr (versioned_merge<merge_of<Protocol>>) return multi_version{t};
  else return t;
}

template <class Protocol, class... Tables>
[[nodiscard]] std::unique_ptr<host> host_tables(Protocol p, options const& o, Tables... t) {
  using blueprint_type = blueprint<null_mutex, Protocol, Tables...>;
  return std::make_unique<hosted<blueprint_type>>(
      blueprint_type(std::move(p), o.place.servers, std::move(t)...), o);
}

/// Makes the options' tables one by one, so that their kinds are known when all of them are made.
template <class T, class Protocol, class... Made>
[[nodiscard]] std::unique_ptr<host> host_from(Protocol p, options const& o, Made... made) {
  constexpr std::size_t count = sizeof...(Made);
  constexpr std::size_t sparse_ones = (std::size_t{!Made::bounded} + ... + 0);
  if constexpr (count != 0)
    if (count == o.tables.size()) return host_tables(std::move(p), o, std::move(made)...);
  if constexpr (is_hosted(count + 1, sparse_ones + 1)) {
    using kind = sparse<T, merge_of_protocol, named_partition>;
    if (o.tables.at(count).is_sparse())
      return host_from<T>(std::move(p), o, std::move(made)...,
                          table_from<Protocol, kind>(o.tables[count]));
  }
  if constexpr (is_hosted(count + 1, sparse_ones)) {
    using kind = dense<T, merge_of_protocol, named_partition>;
    if (!o.tables.at(count).is_sparse())
      return host_from<T>(std::move(p), o, std::move(made)...,
                          table_from<Protocol, kind>(o.tables[count]));
  }
  throw option_error("--storage: tables that are not hosted");  // `parse` refuses them
}

template <class Visibility, class Merge>
[[nodiscard]] std::unique_ptr<host> host_protocol(Merge merge, options const& o) {
  using protocol_type = hosted_protocol<Visibility, Merge>;
  protocol_type const p{named_admission(o), merge};
  if (o.type == "double") return host_from<double>(p, o);
  return host_from<float>(p, o);
}

}  // namespace rubato::server_tool
