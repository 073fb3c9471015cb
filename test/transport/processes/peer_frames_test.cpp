// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Messages between peers, as they travel.
#include <rubato/transport/processes/peer_frames.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <rubato/wire/messages.hpp>

using namespace rubato;
using Catch::Contains;

namespace {

shared_update parameters_of(std::vector<float> const& x) {
  update u{.whole = true, .rows = {}, .values = {}};
  u.values.append(std::as_bytes(std::span(x)));
  return shared_update(std::move(u));
}

detail::parameters_shape const five{element_type::float32, 5};

/// The frame as the other end has it, its body in the places that `arriving` gives.
std::vector<std::span<std::byte>> arrive(detail::arriving_message& arriving, net::reliable_frame const& frame,
                                         bool wanted = true) {
  wire::frame_header h = frame.header();
  std::vector<std::span<std::byte const>> body;
  frame.gather(body);
  h.length = body.at(0).size();
  arriving.begin(h, frame.meta());
  std::vector<std::span<std::byte>> room;
  if (wanted) arriving.receive(room);
  else arriving.discard(room);
  auto from = body.at(0);
  for (auto const to : room) {
    std::memcpy(to.data(), from.data(), to.size());
    from = from.subspan(to.size());
  }
  CHECK(from.empty());
  return room;
}

std::string refusal_of_frame(std::uint8_t kind, std::uint64_t length, std::vector<std::byte> const& meta) {
  detail::arriving_message arriving(five);
  wire::frame_header h;
  h.kind = kind;
  h.length = length;
  try {
    arriving.begin(h, meta);
  } catch (wire::frame_error const& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("peer frames: a message is sent from where its parameters are, and received into a block of its own") {
  shared_update const x = parameters_of({1, -2, 3, 0.5F, 7});
  detail::parameters_frame const frame(stage_id{3}, 2, {.kind = 1, .number = -9, .parameters = x});
  std::vector<std::span<std::byte const>> body;
  frame.gather(body);
  REQUIRE(body.size() == 1);
  CHECK(body[0].data() == x->values.data());  // not a copy
  CHECK(frame.header().kind == +wire::kind::peer_message);
  CHECK(frame.header().sender == 2);

  detail::arriving_message arriving(five);
  auto const room = arrive(arriving, frame);
  CHECK(arriving.stage() == stage_id{3});
  peer_message const m = arriving.take();
  CHECK(m.kind == 1);
  CHECK(m.number == -9);
  CHECK(m.parameters->values.data() == room.at(0).data());  // nor here
  CHECK(std::ranges::equal(m.parameters->values.bytes(), x->values.bytes()));
  // The next one does not touch what the node has.
  (void)arrive(arriving, detail::parameters_frame(stage_id{3}, 2, {.kind = 1, .number = 1,
                                                                   .parameters = parameters_of({9, 9, 9, 9, 9})}));
  (void)arriving.take();
  CHECK(std::ranges::equal(m.parameters->values.bytes(), x->values.bytes()));
}

TEST_CASE("peer frames: what is lent is not sent, and counts as under way") {
  shared_update const x = parameters_of({1, -2, 3, 0.5F, 7});
  detail::parameters_frame const lent(stage_id{3}, 2, {.kind = 1, .number = -9, .parameters = x}, 4096);
  std::vector<std::span<std::byte const>> body;
  lent.gather(body);
  CHECK(body.empty());
  CHECK(lent.lent() == 5 * sizeof(float));
  auto const meta = wire::from_bytes<wire::peer_meta>(lent.meta());
  CHECK(meta.place == 4096);
  CHECK(meta.bytes == 5 * sizeof(float));
  CHECK(detail::parameters_frame(stage_id{3}, 2, {.kind = 1, .number = -9, .parameters = x}).lent() == 0);
}

TEST_CASE("peer frames: a message without parameters comes without, after one with them, too") {
  detail::arriving_message arriving(five);
  (void)arrive(arriving, detail::parameters_frame(stage_id{1}, 0, {.kind = 0, .number = 0,
                                                                   .parameters = parameters_of({1, 2, 3, 4, 5})}));
  auto const room =
      arrive(arriving, detail::parameters_frame(stage_id{1}, 0, {.kind = 3, .number = 4, .parameters = {}}));
  CHECK(room.empty());
  peer_message const m = arriving.take();
  CHECK(m.kind == 3);
  CHECK(m.parameters->values.empty());
}

TEST_CASE("peer frames: what nobody wants is read over, and takes little memory") {
  detail::parameters_shape const large{element_type::float64, 1'000'000};
  detail::arriving_message arriving(large);
  std::vector<float> const x(2'000'000, 1);
  detail::parameters_frame const frame(stage_id{1}, 0, {.kind = 0, .number = 0, .parameters = parameters_of(x)});
  auto const room = arrive(arriving, frame, false);
  for (auto const part : room) CHECK(part.data() == room.at(0).data());
  CHECK(room.at(0).size() <= 256 * 1024);
  CHECK(arriving.take().parameters->values.empty());
}

TEST_CASE("peer frames: what no peer of the group sends is refused before memory is taken") {
  auto const meta = wire::to_bytes(wire::peer_meta{stage_id{1}, 0, 0});
  CHECK(refusal_of_frame(+wire::kind::peer_message, 5 * sizeof(float), meta) == "");
  CHECK(refusal_of_frame(+wire::kind::peer_message, 0, meta) == "");
  CHECK_THAT(refusal_of_frame(+wire::kind::commit, 0, meta), Contains("not for a peer"));
  CHECK_THAT(refusal_of_frame(+wire::kind::peer_message, 6 * sizeof(float), meta), Contains("expected at most 20"));
  CHECK_THAT(refusal_of_frame(+wire::kind::peer_message, std::numeric_limits<std::uint64_t>::max(), meta),
             Contains("expected at most 20"));
  CHECK_THAT(refusal_of_frame(+wire::kind::peer_message, 6, meta), Contains("whole ones of float"));
  CHECK(refusal_of_frame(+wire::kind::peer_message, 0, {}) != "");
  auto longer = meta;
  longer.push_back(std::byte{0});
  CHECK(refusal_of_frame(+wire::kind::peer_message, 0, longer) != "");
}

TEST_CASE("peer frames: the average is added up in double precision, and rounded once") {
  detail::parameters_average sum({element_type::float32, 3});
  sum.restart();
  std::vector<std::vector<float>> const all{{1, 1e8F, -1}, {2, 1, 0}, {4, -1e8F, 1}};
  for (auto const& x : all) sum.add(std::as_bytes(std::span(x)));
  CHECK(sum.count() == 3);
  shared_update const average = sum.result();
  auto const x = average->values.as<float>();
  CHECK(x[0] == static_cast<float>(7.0 / 3));
  CHECK(x[1] == static_cast<float>(1.0 / 3));  // in single precision 0
  CHECK(x[2] == 0);
  CHECK(detail::parameters_average::distance(element_type::float32, std::as_bytes(std::span(all[0])),
                                             std::as_bytes(std::span(all[0]))) == 0);
  std::vector<double> const here{0, 3}, there{4, 0};
  CHECK(detail::parameters_average::distance(element_type::float64, std::as_bytes(std::span(here)),
                                             std::as_bytes(std::span(there))) == 5);
  sum.restart();
  CHECK(sum.count() == 0);
  sum.add(std::as_bytes(std::span(all[1])));
  CHECK(sum.result()->values.as<float>()[0] == 2);
}
