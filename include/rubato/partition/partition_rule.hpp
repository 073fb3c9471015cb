// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "rubato/core/check_options.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/partition/concepts.hpp"

namespace rubato {

/// A partition as a value. Copies share the policy. Called concurrently.
class partition_rule {
 public:
  /// Any policy converts. @throws what its `check()` does, if it has one
  template <class P>
    requires(!std::same_as<P, partition_rule> && partition_policy<P>)
  partition_rule(P policy) {  // NOLINT: policies are meant to convert
    detail::check_options(policy);
    answers_ = std::make_shared<model<P> const>(std::move(policy));
  }

  /// The numbers of the servers of the rows with these keys. @pre `out` has as many places
  void servers_of(std::span<std::uint64_t const> keys, table_shape shape, std::uint32_t* out) const {
    answers_->servers_of(keys, shape, out);
  }
  /// Up to which key all from this one on are on its server, as the policy says; nothing where it does not.
  [[nodiscard]] std::optional<std::uint64_t> run_end(key k, table_shape shape) const {
    return answers_->run_end(k, shape);
  }
  /// What tells the policy from others, see `partition_policy`.
  [[nodiscard]] std::uint64_t digest() const { return answers_->digest(); }

 private:
  struct answers {
    virtual ~answers() = default;
    virtual void servers_of(std::span<std::uint64_t const> keys, table_shape shape,
                            std::uint32_t* out) const = 0;
    [[nodiscard]] virtual std::optional<std::uint64_t> run_end(key k, table_shape shape) const = 0;
    [[nodiscard]] virtual std::uint64_t digest() const = 0;
  };
  template <class P>
  struct model final : answers {
    explicit model(P p) : policy(std::move(p)) {}
    void servers_of(std::span<std::uint64_t const> keys, table_shape shape,
                    std::uint32_t* out) const override {
      for (std::size_t i = 0; i < keys.size(); ++i)
        out[i] = policy.server_of(key{keys[i]}, shape).value();
    }
    [[nodiscard]] std::optional<std::uint64_t> run_end([[maybe_unused]] key k,
                                                       [[maybe_unused]] table_shape shape) const override {
      if constexpr (detail::partition_in_runs<P>) return policy.run_end(k, shape);
      else return std::nullopt;
    }
    [[nodiscard]] std::uint64_t digest() const override { return detail::digest_of(policy); }
    P policy;
  };

  std::shared_ptr<answers const> answers_;
};

}  // namespace rubato
