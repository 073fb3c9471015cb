// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include <rubato/core/ids.hpp>
#include <rubato/data/file_block.hpp>

namespace rubato::data {

/// Deals out the blocks of files to those who load them: whoever is done asks for the next, so that fast loaders
/// load more; and gets one that lies on its node while there is any. Source: 004 §6.2.
///
/// Thread safety: any thread. Cost: O(log blocks) for each copy of a block.
class file_assigner {
 public:
  /// Deals out these, in this order where nothing else matters.
  explicit file_assigner(std::vector<file_block> blocks);

  /// A block for a loader on this node, or nothing when all are dealt out. First those that lie there, then
  /// those that are as near to all, then those that lie elsewhere; of each in the order of the list.
  [[nodiscard]] std::optional<file_block> next(node_id where);
  /// The node is lost, and with it what it has loaded: all that it was given is dealt out anew. Returns how many
  /// blocks that are.
  std::size_t lost(node_id where);

  /// Blocks not dealt out yet.
  [[nodiscard]] std::size_t left() const;
  /// Of the blocks dealt out, those that lie where they were given to.
  [[nodiscard]] std::size_t local() const;

 private:
  using queue = std::set<std::size_t>;  ///< in the order of the list, which blocks that come back keep

  /// Where a block that lies nowhere in particular, or elsewhere, waits.
  [[nodiscard]] queue& others(std::size_t block) { return blocks_[block].nodes.empty() ? of_all_ : elsewhere_; }
  void list(std::size_t block);
  void unlist(std::size_t block);
  [[nodiscard]] std::optional<std::size_t> first_for(node_id where) const;
  [[nodiscard]] bool lies_on(std::size_t block, node_id where) const;

  std::vector<file_block> blocks_;
  mutable std::mutex lock_;  ///< what follows
  std::size_t local_ = 0;
  std::map<node_id, queue> of_node_;  ///< blocks to be dealt out, also those that lie on others as well
  queue of_all_;
  queue elsewhere_;
  std::map<node_id, std::vector<std::size_t>> dealt_;
};

/// Which of these blocks each node is to load, by node: where processes have no memory in common, each makes a
/// `file_assigner` of its own share, and all come to the same ones. Blocks that lie on a node stay there as long
/// as it gets no more than its part of all bytes; the others go to who has least. In the order of the list.
///
/// No node gets more than its part and one block. A block that does not say its end counts as much as the largest
/// that does. Cost: O(blocks x nodes). @throws option_error naming what was expected
[[nodiscard]] std::vector<std::vector<file_block>> share_out(std::vector<file_block> const& blocks,
                                                             std::uint32_t nodes);

}  // namespace rubato::data
