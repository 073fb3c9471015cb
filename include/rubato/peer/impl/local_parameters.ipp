// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "rubato/peer/local_parameters.hpp"
#include "rubato/storage/arithmetic.hpp"

namespace rubato {

namespace detail {
constexpr std::size_t stretch = 512;  // stays in the first cache with all that belongs to it; of 2048 not all did

/// A stretch of the parts that stays in the first cache, so that memory is read and written once whatever their number.
template <parameter T>
void average_stretch(std::span<contribution const> parts, std::span<std::byte const* const> places, std::size_t first,
                     T* to, std::size_t n) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    T const* const x = reinterpret_cast<T const*>(places[i]) + first;
    if (i == 0) set_scaled(to, x, n, parts[i].weight);
    else add_scaled(to, x, n, parts[i].weight);
  }
}
}  // namespace detail

local_parameters::local_parameters(node_setup const& setup)
    : element_(setup.element),
      size_(setup.initial.size() / size_of(setup.element)),
      step_(setup.make_step()) {
  restart();
}

/// What is elsewhere is not used again.
void local_parameters::use(std::shared_ptr<block_memory> memory) {
  pool_ = update_pool();
  pool_.use(std::move(memory));
}

update_buffer local_parameters::fresh() const {
  update_buffer u = pool_.take();
  u->whole = true;
  u->values.resize_bytes(size_bytes());
  return u;
}

shared_update local_parameters::initial(std::span<std::byte const> values) const {
  update_buffer u = fresh();
  std::ranges::copy(values, u->values.data());
  return u;
}

/// Of a part that nobody else has: it has been read just before it is written, and so is in the cache.
update_buffer local_parameters::room_for_average(std::span<contribution> parts) const {
  for (contribution& part : parts)
    if (update_buffer alone = part.parameters.take_if_alone()) return alone;
  return fresh();
}

/// Each stretch is added up beside, since the result may take the place of a part.
shared_update local_parameters::average(std::span<contribution> parts, shared_update const& own,
                                        std::span<std::byte const> gradient) {
  std::size_t const each = size_of(element_);
  std::byte const* const mine = own->values.data();
  places_.clear();
  for (contribution const& part : parts) places_.push_back(part.own ? mine : part.parameters->values.data());
  update_buffer next = room_for_average(parts);
  with_element(element_, [&]<class T>() {
    std::array<T, detail::stretch> sum;
    auto* const block = reinterpret_cast<std::byte*>(sum.data());
    for (std::size_t first = 0; first < size_; first += detail::stretch) {
      std::size_t const n = std::min(detail::stretch, size_ - first), at = first * each;
      detail::average_stretch(parts, places_, first, sum.data(), n);
      if (!gradient.empty()) step_->apply(first, n, mine + at, gradient.data() + at, block);
      std::memcpy(next->values.data() + at, block, n * each);
    }
  });
  return next;
}

shared_update local_parameters::stepped(shared_update const& base, shared_update const& x,
                                        std::span<std::byte const> gradient) {
  update_buffer next = fresh();
  step_into(*next, base, x, 0, gradient);
  return next;
}

/// Stretch by stretch: what has been copied is still in the first cache when the step is added to it.
void local_parameters::step_into(update& to, shared_update const& base, shared_update const& x, std::size_t first,
                                 std::span<std::byte const> gradient) {
  std::size_t const each = size_of(element_);
  for (std::size_t done = 0; done < gradient.size();) {
    std::size_t const n = std::min(detail::stretch, (gradient.size() - done) / each);
    std::size_t const at = first * each + done;
    std::memcpy(to.values.data() + at, base->values.data() + at, n * each);
    step_->apply(at / each, n, x->values.data() + at, gradient.data() + done, to.values.data() + at);
    done += n * each;
  }
}

shared_update local_parameters::stepped(shared_update const& base, shared_update const& x,
                                        std::span<std::byte const> gradient, double scale) {
  if (scale == 1) return stepped(base, x, gradient);
  update_buffer next = fresh();
  with_element(element_, [&]<class T>() {
    std::array<T, detail::stretch> step;
    for (std::size_t first = 0; first < size_; first += detail::stretch) {
      std::size_t const n = std::min(detail::stretch, size_ - first);
      std::size_t const at = first * sizeof(T);
      std::fill_n(step.begin(), n, T{0});
      step_->apply(first, n, x->values.data() + at, gradient.data() + at, reinterpret_cast<std::byte*>(step.data()));
      detail::add_scaled_into(reinterpret_cast<T*>(next->values.data() + at),
                              reinterpret_cast<T const*>(base->values.data() + at), step.data(), n, scale);
    }
  });
  return next;
}

shared_update local_parameters::stepped_by_mean(shared_update const& base, shared_update const& x,
                                                std::span<std::byte const> sum, std::uint32_t peers) {
  update_buffer next = fresh();
  with_element(element_, [&]<class T>() {
    std::array<T, detail::stretch> mean;
    auto const* const sums = reinterpret_cast<T const*>(sum.data());
    for (std::size_t first = 0; first < size_; first += detail::stretch) {
      std::size_t const n = std::min(detail::stretch, size_ - first);
      std::size_t const at = first * sizeof(T);
      for (std::size_t i = 0; i < n; ++i) mean[i] = sums[first + i] / static_cast<T>(peers);
      std::memcpy(next->values.data() + at, base->values.data() + at, n * sizeof(T));
      step_->apply(first, n, x->values.data() + at, reinterpret_cast<std::byte const*>(mean.data()),
                   next->values.data() + at);
    }
  });
  return next;
}

}  // namespace rubato
