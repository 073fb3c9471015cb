// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/mpi/crew.hpp"

#include <chrono>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "bench/processes/run_processes.hpp"

namespace rubato::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::uint16_t leader_number = 20000, worker_number = 20001;  // no cluster listens there
constexpr std::uint8_t text_kind = 16, note_kind = 17;
constexpr std::uint64_t longest_text = std::uint64_t{1} << 30;
constexpr auto patience = 60s;

/// Nobody looks here while a cluster runs.
net::listener_options patient() {
  net::listener_options o;
  o.silence = 24h;
  return o;
}

}  // namespace

/// An end of a connection between two ranks.
class crew::wire_end final : public net::frame_receiver {
 public:
  wire_end(crew& all, std::unique_ptr<net::connection> c) : all_(all), connection_(std::move(c)) {
    connection_->attach(*this);
  }
  void send(std::uint8_t kind, std::span<std::byte const> body) {
    connection_->send({.kind = kind}, {}, body);
    connection_->flush();
  }

 private:
  void begin(wire::frame_header const& header, std::span<std::byte const>,
             std::vector<std::span<std::byte>>& body) override {
    bool const is_text = header.kind == text_kind && header.length <= longest_text;
    bool const is_note = header.kind == note_kind && header.length >= sizeof(progress_note) &&
                         header.length <= longest_text && (header.length - sizeof(progress_note)) % sizeof(float) == 0;
    if (!is_text && !is_note)
      throw wire::frame_error("a frame that no rank sends to another one");
    arriving_.resize(static_cast<std::size_t>(header.length));
    body.push_back(std::as_writable_bytes(std::span(arriving_)));
  }
  void end(wire::frame_header const& header) override {
    if (header.kind == text_kind) return all_.texts_.push_back(std::exchange(arriving_, {}));
    heard_note heard;
    std::memcpy(&heard.note, arriving_.data(), sizeof heard.note);
    std::size_t const bytes = arriving_.size() - sizeof heard.note;
    heard.parameters.resize(bytes / sizeof(float));
    if (bytes != 0) std::memcpy(heard.parameters.data(), arriving_.data() + sizeof heard.note, bytes);
    all_.notes_.push_back(std::move(heard));
  }
  void closed(std::string const& reason) override { all_.gone_ = reason; }

  crew& all_;
  std::unique_ptr<net::connection> connection_;
  std::string arriving_;
};

crew::crew(std::uint32_t servers) : self_(net::this_mpi_rank()), first_worker_(1 + servers) {
  if (leads() || is_first_worker())
    listener_ = network_.listen(
        net::mpi_network::address_of(self_.number, leads() ? leader_number : worker_number), {}, patient(),
        [this](std::unique_ptr<net::connection> c) {
          ends_.push_back(std::make_unique<wire_end>(*this, std::move(c)));
        });
  if (!leads()) leader_ = dial(0, leader_number);
  if (!leads() && !is_first_worker()) worker_ = dial(first_worker_, worker_number);
  std::size_t others = 0;
  if (leads()) others = self_.count - 1;
  if (is_first_worker()) others = self_.count - 2;  // servers, too, which may be peers in another run
  wait_until([&] { return ends_.size() == others; }, net::network::clock::now() + patience);
}

crew::~crew() = default;

template <class Condition>
void crew::wait_until(Condition done, net::network::clock::time_point deadline) {
  while (!done()) {
    if (network_.now() >= deadline)
      throw process_failure(fmt::format("rank {}: some of {} ranks are not there in time", self_.number, self_.count));
    network_.run_one(deadline);
  }
}

/// Until somebody listens there.
std::unique_ptr<crew::wire_end> crew::dial(std::uint32_t rank, std::uint16_t number) {
  auto const deadline = network_.now() + patience;
  while (true) {
    std::unique_ptr<wire_end> made;
    bool told = false;
    auto const attempt = network_.dial(net::mpi_network::address_of(rank, number), {}, patient(),
                                       [&](std::unique_ptr<net::connection> c, std::string const&, bool) {
                                         told = true;
                                         if (c) made = std::make_unique<wire_end>(*this, std::move(c));
                                       });
    wait_until([&] { return told; }, deadline);
    if (made) return made;
    auto const later = network_.now() + 10ms;
    while (network_.now() < later) network_.run_one(later);
  }
}

void crew::order(std::string const& text) {
  for (auto const& e : ends_) e->send(text_kind, std::as_bytes(std::span(text)));
}

std::string crew::result() {
  wait_until([&] { return !texts_.empty() || gone_; }, net::network::clock::time_point::max());
  if (texts_.empty()) throw process_failure("a rank has left: " + *gone_);
  std::string text = std::move(texts_.front());
  texts_.pop_front();
  return text;
}

std::optional<std::string> crew::next_order() {
  wait_until([&] { return !texts_.empty() || gone_; }, net::network::clock::time_point::max());
  if (texts_.empty()) return std::nullopt;
  std::string text = std::move(texts_.front());
  texts_.pop_front();
  return text;
}

void crew::report(std::string const& text) { leader_->send(text_kind, std::as_bytes(std::span(text))); }

void crew::tell(progress_note const& note, std::span<float const> parameters) {
  auto const head = std::as_bytes(std::span(&note, 1)), tail = std::as_bytes(parameters);
  std::vector<std::byte> all(head.begin(), head.end());
  all.insert(all.end(), tail.begin(), tail.end());
  worker_->send(note_kind, all);
}

void crew::hear(std::function<void(heard_note const&)> const& each) {
  network_.poll();
  for (heard_note const& one : std::exchange(notes_, {})) each(one);
}

}  // namespace rubato::bench
