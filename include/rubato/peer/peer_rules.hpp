// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <functional>
#include <memory>

#include "rubato/peer/peer_node.hpp"

namespace rubato {

/// A decentralized protocol as a value: any of them converts to it, and `peer_group` takes it in a protocol's
/// place, for programs that choose one while they run.
class peer_rules {
 public:
  /// Any decentralized protocol converts.
  template <class P>
    requires(!std::same_as<P, peer_rules> && peer_protocol<P>)
  peer_rules(P const& p)  // NOLINT: protocols are meant to convert
      : make_node_([p](node_setup const& setup) { return p.make_node(setup); }) {}

  [[nodiscard]] std::unique_ptr<peer_node> make_node(node_setup const& setup) const {
    return make_node_(setup);
  }

 private:
  std::function<std::unique_ptr<peer_node>(node_setup const&)> make_node_;
};
static_assert(peer_protocol<peer_rules>);

}  // namespace rubato
