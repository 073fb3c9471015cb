// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <map>

#include "rubato/net/link.hpp"
#include "rubato/net/proof.hpp"
#include "rubato/wire/from_coordinator.hpp"
#include "rubato/wire/secret.hpp"

namespace rubato::detail {

/// What a session of a worker process says at a server to show that it is its own: an HMAC under the secret of this
/// life of role, number, incarnation, session and server. So it says nothing of the secret, and is worth nothing for
/// another session or at another server. @throws error (errc::io)
[[nodiscard]] net::proof session_credential(wire::secret const& of, net::hello const& said, std::uint32_t server);

/// Which worker processes the coordinator has enrolled, as far as a server has heard.
class enrolments {
 public:
  enum class verdict : std::uint8_t {
    early,    ///< nothing is known of this life yet: the coordinator's word may be on its way
    over,     ///< of a life that has been given up, or that another has followed
    forged,   ///< it does not know the secret
    genuine,
  };

  void admit(wire::admission const& m);
  /// Up to this life all are over.
  void expel(wire::expel const& m);
  /// Of a session that says this at server `self`.
  [[nodiscard]] verdict judge(net::hello const& said, std::uint32_t self) const;

 private:
  struct life {
    std::uint32_t incarnation = 0;
    bool over = false;
    wire::secret secret{};
  };
  std::map<std::uint32_t, life> last_;  ///< by process
};

}  // namespace rubato::detail
