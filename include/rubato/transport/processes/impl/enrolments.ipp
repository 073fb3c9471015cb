// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <string>

#include "rubato/transport/processes/enrolments.hpp"
#include "rubato/wire/archive.hpp"

namespace rubato::detail {

net::proof session_credential(wire::secret const& of, net::hello const& said, std::uint32_t server) {
  wire::output_archive text;
  text << std::string("rubato session") << said.as << said.number << said.incarnation << said.session << server;
  return net::make_proof(net::bytes_of(of), text.take());
}

void enrolments::admit(wire::admission const& m) {
  auto const at = last_.find(m.process);
  if (at != last_.end() && m.incarnation <= at->second.incarnation)
    throw wire::frame_error("the coordinator admits life " + std::to_string(m.incarnation) + " of worker process " +
                            std::to_string(m.process) + " after life " + std::to_string(at->second.incarnation));
  last_[m.process] = {m.incarnation, false, m.secret};
}

void enrolments::expel(wire::expel const& m) {
  auto const [at, first] = last_.try_emplace(m.process);
  if (at->second.incarnation > m.incarnation) return;
  at->second = {m.incarnation, true, {}};
}

enrolments::verdict enrolments::judge(net::hello const& said, std::uint32_t self) const {
  auto const at = last_.find(said.number);
  if (at == last_.end() || said.incarnation > at->second.incarnation) return verdict::early;
  life const& known = at->second;
  if (known.over || said.incarnation < known.incarnation) return verdict::over;
  auto const expected = session_credential(known.secret, said, self);
  return net::are_same(net::bytes_of(said.credential), net::bytes_of(expected)) ? verdict::genuine : verdict::forged;
}

}  // namespace rubato::detail
