// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <array>
#include <boost/serialization/serialization.hpp>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/core/error.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/core/time.hpp"
#include "rubato/metrics/run_report.hpp"
#include "rubato/server/messages.hpp"
#include "rubato/server/read_slot.hpp"
#include "rubato/wire/frame.hpp"
#include "rubato/wire/role.hpp"

namespace rubato::wire {

template <class T>
concept plain_number = std::is_arithmetic_v<T> || std::is_enum_v<T>;

/// The greatest value of an enumeration that travels: what arrives is checked against it.
template <class Enum>
constexpr Enum last_of() = delete;
template <>
constexpr std::byte last_of() {
  return std::byte{255};
}
template <>
constexpr role last_of() {
  return role::coordinator;
}
template <>
constexpr errc last_of() {
  return errc::bad_frame;
}
template <>
constexpr refusal last_of() {
  return refusal::cut;  // `size` does not travel
}
template <>
constexpr selection last_of() {
  return selection::all;
}
template <>
constexpr membership_order::kind last_of() {
  return membership_order::kind::drop;
}

template <>
constexpr recovery last_of() {
  return recovery::restore;
}

template <>
constexpr completion last_of() {
  return completion::not_begun;
}

/// An archive of Boost.Serialization that writes little-endian bytes without any framing of its own:
/// what both ends know is not sent. Classes are written by their `serialize`.
class output_archive {
 public:
  using is_saving = std::true_type;
  using is_loading = std::false_type;

  output_archive() : bytes_(128) {}  // enough for what is said with every commit
  /// Writes in place of what this one holds, which most often is as long as what comes.
  explicit output_archive(std::vector<std::byte> memory) : bytes_(std::move(memory)) {}

  template <class T>
  output_archive& operator&(T const& value) {
    save(value);
    return *this;
  }
  template <class T>
  output_archive& operator<<(T const& value) {
    return *this & value;
  }

  [[nodiscard]] std::span<std::byte const> bytes() const noexcept { return std::span(bytes_).first(size_); }
  [[nodiscard]] std::vector<std::byte> take() {
    bytes_.resize(std::exchange(size_, 0));
    return std::exchange(bytes_, {});
  }

 private:
  // Numbers are what nearly all of a frame's meta is, and a call for each costs more than it does.
  template <plain_number T>
  [[gnu::always_inline]] void save(T value) {
    if (bytes_.size() - size_ < sizeof value) [[unlikely]]
      grow(sizeof value);
    std::memcpy(bytes_.data() + size_, &value, sizeof value);
    size_ += sizeof value;
  }
  template <class Tag, class Rep>
  void save(rubato::detail::strong_id<Tag, Rep> id) {
    save(id.value());
  }
  void save(clock_index c) { save(c.value()); }
  void save(staleness s) { save(s.clocks()); }
  void save(duration d) { save(static_cast<std::int64_t>(d.count())); }
  void save(time_point t) { save(t.since_start()); }
  void save(std::string const& text) {
    save(static_cast<std::uint32_t>(text.size()));
    for (char const c : text) save(c);
  }
  template <class T>
  void save(std::vector<T> const& many) {
    save(static_cast<std::uint32_t>(many.size()));
    for (T const& one : many) save(one);
  }
  template <class T, std::size_t N>
  void save(std::array<T, N> const& many) {
    for (T const& one : many) save(one);
  }
  template <class T>
  void save(std::optional<T> const& value) {
    save(value.has_value());
    if (value) save(*value);
  }
  template <class T>
    requires(std::is_class_v<T>)
  void save(T const& value) {
    // One `serialize` serves both ways, so it takes what it saves by reference to non-const.
    boost::serialization::serialize_adl(*this, const_cast<T&>(value), 0U);
  }

  [[gnu::noinline]] void grow(std::size_t by) { bytes_.resize(2 * bytes_.size() + by); }

  std::vector<std::byte> bytes_;  ///< with room for what comes
  std::size_t size_ = 0;          ///< of those that have been written
};

/// Reads what an `output_archive` wrote, from bytes that may be anything: it never reads beyond their
/// end, and takes memory in proportion to what is there.
/// @throws frame_error when the bytes end early, or hold a value that cannot be
class input_archive {
 public:
  using is_saving = std::false_type;
  using is_loading = std::true_type;

  explicit input_archive(std::span<std::byte const> bytes) noexcept : bytes_(bytes) {}

  template <class T>
  input_archive& operator&(T& value) {
    load(value);
    return *this;
  }
  template <class T>
  input_archive& operator>>(T& value) {
    return *this & value;
  }

  [[nodiscard]] std::size_t left() const noexcept { return bytes_.size(); }
  void expect_end() const {
    if (!bytes_.empty())
      throw frame_error("a message has " + std::to_string(bytes_.size()) + " bytes too many");
  }

 private:
  template <plain_number T>
  [[gnu::always_inline]] void load(T& value) {  // as above
    if constexpr (std::same_as<T, bool>) {
      std::uint8_t byte = 0;
      load(byte);
      if (byte > 1) [[unlikely]]
        refuse_truth(byte);
      value = byte != 0;
    } else if constexpr (std::is_enum_v<T>) {
      std::underlying_type_t<T> number{};
      load(number);
      using wide = std::uint64_t;  // a negative one becomes a great one
      if (static_cast<wide>(number) > static_cast<wide>(last_of<T>())) [[unlikely]]
        refuse_choice(std::to_string(number), static_cast<wide>(last_of<T>()));
      value = static_cast<T>(number);
    } else {
      if (bytes_.size() < sizeof value) [[unlikely]]
        refuse_end();
      std::memcpy(&value, bytes_.data(), sizeof value);
      bytes_ = bytes_.subspan(sizeof value);
    }
  }
  template <class Tag, class Rep>
  void load(rubato::detail::strong_id<Tag, Rep>& id) {
    Rep value{};
    load(value);
    id = rubato::detail::strong_id<Tag, Rep>{value};
  }
  void load(clock_index& c) {
    std::int64_t value = 0;
    load(value);
    c = clock_index{value};
  }
  void load(staleness& s) {
    std::int64_t clocks = 0;
    load(clocks);
    if (clocks < 0) throw frame_error("a message holds a staleness of " + std::to_string(clocks));
    s = staleness{clocks};
  }
  void load(duration& d) {
    std::int64_t count = 0;
    load(count);
    d = duration(count);
  }
  void load(time_point& t) {
    duration d{};
    load(d);
    t = time_point(d);
  }
  void load(std::string& text) {
    std::size_t const size = load_size();
    text.assign(reinterpret_cast<char const*>(bytes_.data()), size);
    bytes_ = bytes_.subspan(size);
  }
  template <class T>
  void load(std::vector<T>& many) {
    std::size_t const size = load_size();
    many.clear();
    for (std::size_t i = 0; i < size; ++i) {
      T one{};
      load(one);
      many.push_back(std::move(one));
    }
  }
  template <class T, std::size_t N>
  void load(std::array<T, N>& many) {
    for (T& one : many) load(one);
  }
  template <class T>
  void load(std::optional<T>& value) {
    bool there = false;
    load(there);
    value.reset();
    if (there) load(value.emplace());
  }
  template <class T>
    requires(std::is_class_v<T>)
  void load(T& value) {
    boost::serialization::serialize_adl(*this, value, 0U);
  }

  /// Every element takes at least a byte.
  [[nodiscard]] std::size_t load_size() {
    std::uint32_t size = 0;
    load(size);
    if (size > bytes_.size())
      throw frame_error("a message holds " + std::to_string(size) + " elements, but only " +
                        std::to_string(bytes_.size()) + " bytes are left");
    return size;
  }

  [[noreturn, gnu::noinline]] static void refuse_end() { throw frame_error("a message ends too early"); }
  [[noreturn, gnu::noinline]] static void refuse_truth(std::uint8_t byte) {
    throw frame_error("a message holds a truth value of " + std::to_string(byte));
  }
  [[noreturn, gnu::noinline]] static void refuse_choice(std::string const& number, std::uint64_t most) {
    throw frame_error("a message holds a choice numbered " + number + ", expected at most " + std::to_string(most));
  }

  std::span<std::byte const> bytes_;
};

}  // namespace rubato::wire
