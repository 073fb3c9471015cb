// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <optional>
#include <string>

namespace rubato::net {

/// Mutual TLS: both ends show a certificate that the authority has signed. PEM files. A certificate may say what its
/// holder is in a run, see `certified_places`; otherwise that is anything.
struct tls_files {
  std::string certificate;  ///< of this process
  std::string key;  ///< of that certificate, without a pass phrase
  std::string authority;  ///< who must have signed the other end's
};

/// Who may talk to this process. The same on every process of a run.
struct security {
  /// A shared secret, for trusted networks: each end proves to the other that it knows it (HMAC of a
  /// challenge), and neither sends it. Whoever listens in, or listens in place of another, gets what it takes
  /// to try guesses in peace, so it should be long and random. It says nothing of which process of the run one is,
  /// but its proof covers the role that one says first. What travels afterwards is neither encrypted
  /// nor authenticated: whoever can change it on its way takes the connection over. Empty: none.
  std::string token = {};
  std::optional<tls_files> tls = {};  ///< encryption and certificates; none: neither
  /// Without it, listening on anything but the loopback network is an error. With it, a process
  /// that does so needs a token or certificates.
  bool beyond_loopback = false;
};

}  // namespace rubato::net
