// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace rubato {

/// A vector of which the first elements need no memory of their own: for what is nearly always short, and
/// moved from hand to hand.
template <class T, std::size_t Few>
class short_list {
 public:
  short_list() = default;
  short_list(std::initializer_list<T> elements) {
    for (T const& e : elements) push_back(e);
  }
  short_list(short_list&& other) noexcept
      : size_(std::exchange(other.size_, 0)), few_(std::move(other.few_)), more_(std::move(other.more_)) {}
  short_list(short_list const& other) : size_(other.size_), few_(other.few_) {
    if (size_ > Few) more_ = std::make_unique<std::vector<T>>(*other.more_);
  }
  short_list& operator=(short_list&& other) noexcept {
    size_ = std::exchange(other.size_, 0);
    few_ = std::move(other.few_);
    more_ = std::move(other.more_);
    return *this;
  }
  short_list& operator=(short_list const& other) { return *this = short_list(other); }
  ~short_list() = default;

  void swap(short_list& other) noexcept {
    std::swap(size_, other.size_);
    few_.swap(other.few_);
    more_.swap(other.more_);
  }

  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] T const& operator[](std::size_t i) const noexcept {
    return i < Few ? few_[i] : (*more_)[i - Few];
  }
  [[nodiscard]] T& operator[](std::size_t i) noexcept { return i < Few ? few_[i] : (*more_)[i - Few]; }

  void push_back(T e) {
    if (size_ < Few) few_[size_] = std::move(e);
    else more().push_back(std::move(e));
    ++size_;
  }
  void resize(std::size_t n) {
    if (n > Few) more().resize(n - Few);
    else if (more_) more_->clear();
    for (std::size_t i = n; i < std::min(size_, Few); ++i) few_[i] = T{};
    size_ = n;
  }
  void clear() noexcept {
    for (std::size_t i = 0; i < std::min(size_, Few); ++i) few_[i] = T{};
    if (more_) more_->clear();
    size_ = 0;
  }

 private:
  [[nodiscard]] std::vector<T>& more() {
    if (!more_) more_ = std::make_unique<std::vector<T>>();
    return *more_;
  }

  std::size_t size_ = 0;
  std::array<T, Few> few_{};
  std::unique_ptr<std::vector<T>> more_;  ///< apart, for there are many lists, and few that need it
};

}  // namespace rubato
