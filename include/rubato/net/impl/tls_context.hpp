// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rubato/net/impl/tls.hpp"

namespace rubato::net {

class tls_context {
 public:
  explicit tls_context(tls_files const& files);
  [[nodiscard]] SSL_CTX* get() const noexcept { return context_.get(); }

 private:
  struct free_context {
    void operator()(SSL_CTX* c) const noexcept { SSL_CTX_free(c); }
  };
  std::unique_ptr<SSL_CTX, free_context> context_;
};

/// What a certificate is for, of its URIs (subjectAltName, RFC 5280); nothing where they cannot be read, or there is no
/// certificate.
[[nodiscard]] std::optional<std::vector<std::string>> uris_of(X509 const* certificate);
/// What went wrong with the last call, as a sentence about the peer; takes it off OpenSSL's queue.
[[nodiscard]] std::string tls_failure(SSL const* of);

}  // namespace rubato::net
