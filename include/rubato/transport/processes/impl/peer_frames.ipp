// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "rubato/transport/processes/peer_frames.hpp"

namespace rubato::detail {

// ---- on their way out

parameters_frame::parameters_frame(stage_id stage, std::uint32_t rank, peer_message m, std::uint64_t place)
    : kind_(wire::kind::peer_message),
      rank_(rank),
      is_lent_(place != 0),
      meta_(wire::to_bytes(wire::peer_meta{stage, m.kind, m.number, place,
                                           is_lent_ ? m.parameters->values.size_bytes() : 0})),
      parameters_(std::move(m.parameters)) {}

parameters_frame::parameters_frame(wire::kind kind, stage_id stage, shared_update parameters)
    : kind_(kind), meta_(wire::to_bytes(wire::parameters_meta{stage})), parameters_(std::move(parameters)) {}

wire::frame_header parameters_frame::header() const {
  wire::frame_header h;
  h.kind = +kind_;
  h.sender = rank_;
  return h;
}

void parameters_frame::gather(std::vector<std::span<std::byte const>>& body) const {
  if (!is_lent_) body.push_back(parameters_->values.bytes());
}

// ---- on their way in

void arriving_message::begin(wire::frame_header const& header, std::span<std::byte const> meta,
                             arena_view const* lent) {
  drop();
  if (header.kind != +wire::kind::peer_message)
    throw wire::frame_error("a frame of kind " + std::to_string(header.kind) + ", which is not for a peer");
  meta_ = wire::from_bytes<wire::peer_meta>(meta);
  std::uint64_t const bytes = is_lent() ? meta_.bytes : header.length;
  if (bytes > shape_.bytes() || bytes % size_of(shape_.element) != 0)
    throw wire::frame_error("a message between peers has " + std::to_string(bytes) +
                            " bytes of parameters, expected at most " + std::to_string(shape_.bytes()) +
                            ", and whole ones of " + to_string(shape_.element));
  if (is_lent()) check_place(header, lent);
  length_ = static_cast<std::size_t>(bytes);
}

void arriving_message::check_place(wire::frame_header const& header, arena_view const* lent) const {
  constexpr std::uint64_t alignment = 64;
  if (lent == nullptr) throw wire::frame_error("parameters in memory that this process does not see");
  if (header.length != 0) throw wire::frame_error("parameters in memory that was lent, and in the message");
  if (meta_.place % alignment != 0)
    throw wire::frame_error("parameters at " + std::to_string(meta_.place) + ", expected a multiple of " +
                            std::to_string(alignment));
  lent->check_place(meta_.place, meta_.bytes);
}

void arriving_message::receive(std::vector<std::span<std::byte>>& body) {
  if (length_ == 0 || is_lent()) return;
  parameters_ = pool_.take();
  parameters_->whole = true;
  parameters_->values.resize_bytes(length_);
  body.push_back(parameters_->values.bytes());
}

void arriving_message::discard(std::vector<std::span<std::byte>>& body) {
  constexpr std::size_t piece = 256 * 1024;
  waste_.resize(std::min(std::max(waste_.size(), length_), piece));
  for (std::size_t left = is_lent() ? 0 : length_; left != 0; left -= body.back().size())
    body.emplace_back(waste_.data(), std::min(left, waste_.size()));
}

peer_message arriving_message::take(std::uint64_t frame, lent_messages const* from) {
  if (is_lent())
    parameters_ = update_buffer(
        update{.whole = true, .rows = {}, .values = from->borrow(frame, meta_.place, meta_.bytes)});
  peer_message m{.kind = meta_.kind, .number = meta_.number, .parameters = {}};
  if (parameters_) m.parameters = std::move(parameters_);
  return m;
}

// ---- their average

void parameters_average::restart() {
  sum_.clear();
  count_ = 0;
}

void parameters_average::add(std::span<std::byte const> parameters) {
  sum_.resize(shape_.size);
  with_element(shape_.element, [&]<class T>() {
    auto const* const x = reinterpret_cast<T const*>(parameters.data());
    for (std::size_t i = 0; i < sum_.size(); ++i) sum_[i] += static_cast<double>(x[i]);
  });
  ++count_;
}

shared_update parameters_average::result() const {
  update u{.whole = true, .rows = {}, .values = {}};
  u.values.resize_bytes(shape_.bytes());
  with_element(shape_.element, [&]<class T>() {
    std::span<T> const average = u.values.as<T>();
    for (std::size_t i = 0; i < sum_.size(); ++i)
      average[i] = static_cast<T>(sum_[i] / static_cast<double>(count_));
  });
  return shared_update(std::move(u));
}

double parameters_average::distance(element_type element, std::span<std::byte const> from,
                                    std::span<std::byte const> average) {
  double sum = 0;
  with_element(element, [&]<class T>() {
    auto const* const x = reinterpret_cast<T const*>(from.data());
    auto const* const a = reinterpret_cast<T const*>(average.data());
    for (std::size_t i = 0; i < from.size() / sizeof(T); ++i) {
      double const d = static_cast<double>(x[i]) - static_cast<double>(a[i]);
      sum += d * d;
    }
  });
  return std::sqrt(sum);
}

}  // namespace rubato::detail
