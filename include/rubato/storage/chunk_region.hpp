// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>

#include "rubato/storage/block.hpp"

namespace rubato::detail {

/// Memory for the chunks of one large table, side by side in large pages where the system has them. Later states of a
/// chunk are where there is room, else on the heap. Any thread.
///
/// Lives until its store and all chunks that anybody refers to are gone.
class chunk_region final : public block_memory {
 public:
  struct closer {
    void operator()(chunk_region* r) const noexcept { r->close(); }
  };
  /// What a store has of it.
  using owner = std::unique_ptr<chunk_region, closer>;

  /// Room for so many chunks of so many bytes each; none where that is not worth it. Throws std::bad_alloc.
  [[nodiscard]] static owner make(std::size_t chunks, std::size_t chunk_bytes);

  [[nodiscard]] void* take(std::size_t bytes) noexcept override;
  void give(void* at, std::size_t bytes) noexcept override;

 private:
  chunk_region(std::size_t chunks, std::size_t slot);
  ~chunk_region() override;
  void close() noexcept;

  std::size_t slot_;  ///< bytes
  std::size_t size_;
  std::byte* memory_;

  std::mutex lock_;
  std::byte* free_ = nullptr;  ///< the first one that was given back, which says where the next is
  std::size_t end_ = 0;        ///< of what has ever been taken
  std::size_t away_ = 0;       ///< chunks
  bool closed_ = false;
};

}  // namespace rubato::detail
