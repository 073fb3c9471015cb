// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/impl/tls_context.hpp"

#include <fmt/core.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <system_error>

#include "rubato/core/error.hpp"
#include "rubato/net/peer_identity.hpp"

namespace rubato::net {
namespace {

// OpenSSL reports an alert that was received as this much and the alert's number.
constexpr int alert_base = SSL_AD_REASON_OFFSET;
constexpr int alert_certificate_required = 116;

std::string last_reason() {
  unsigned long const code = ERR_get_error();
  ERR_clear_error();
  if (ERR_GET_LIB(code) == ERR_LIB_SYS) return std::generic_category().message(ERR_GET_REASON(code));
  char const* const text = code == 0 ? nullptr : ERR_reason_error_string(code);
  return text == nullptr ? "no reason is known" : text;
}

void require(bool fine, char const* what, std::string const& file) {
  if (fine) return;
  throw option_error(
      fmt::format("the {} of TLS, '{}', cannot be used: {}", what, file, last_reason()));
}

// Without it, OpenSSL asks on the terminal, and a process that waits there hears of no signal.
int no_pass_phrase(char*, int, int, void* asked) {
  if (asked != nullptr) *static_cast<bool*>(asked) = true;
  return -1;
}

void use_key(SSL_CTX* c, std::string const& file) {
  bool asked = false;
  SSL_CTX_set_default_passwd_cb_userdata(c, &asked);
  bool const fine = SSL_CTX_use_PrivateKey_file(c, file.c_str(), SSL_FILETYPE_PEM) == 1;
  SSL_CTX_set_default_passwd_cb_userdata(c, nullptr);
  if (asked) {
    ERR_clear_error();
    throw option_error(
        fmt::format("the key of TLS, '{}', cannot be used: it is encrypted, expected one without a pass phrase", file));
  }
  require(fine && SSL_CTX_check_private_key(c) == 1, "key", file);
}

bool is_about_a_certificate(int alert) {
  return (alert >= SSL_AD_BAD_CERTIFICATE && alert <= SSL_AD_CERTIFICATE_UNKNOWN) ||
         alert == SSL_AD_UNKNOWN_CA || alert == SSL_AD_ACCESS_DENIED ||
         alert == alert_certificate_required;
}

std::string alert_text(int alert) {
  std::string const text = alert == alert_certificate_required ? "certificate required"
                                                               : SSL_alert_desc_string_long(alert);
  return is_about_a_certificate(alert) ? fmt::format("the peer refused our certificate: {}", text)
                                       : fmt::format("the peer ended TLS: {}", text);
}

// Others would refuse it.
void require_places(SSL_CTX const* context, std::string const& file) {
  auto const uris = uris_of(SSL_CTX_get0_certificate(context));
  std::string why = uris ? "" : "its names cannot be read";
  try {
    if (uris) (void)certified_places(*uris);
  } catch (option_error const& e) {
    why = e.what();
  }
  if (!why.empty()) throw option_error(fmt::format("the certificate of TLS, '{}', cannot be used: {}", file, why));
}

}  // namespace

tls_context::tls_context(tls_files const& files) {
  ERR_clear_error();
  context_.reset(SSL_CTX_new(TLS_method()));
  if (!context_) throw error(errc::io, fmt::format("TLS cannot be used: {}", last_reason()));
  SSL_CTX* const c = context_.get();
  SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION);
  SSL_CTX_set_options(c, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
  // Sessions are long and few; one that was resumed would not show its certificate again.
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(c, 0);
  SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_default_passwd_cb(c, no_pass_phrase);
  require(SSL_CTX_use_certificate_chain_file(c, files.certificate.c_str()) == 1, "certificate",
          files.certificate);
  require_places(c, files.certificate);
  use_key(c, files.key);
  require(SSL_CTX_load_verify_locations(c, files.authority.c_str(), nullptr) == 1, "authority",
          files.authority);
}

std::shared_ptr<tls_context const> make_tls_context(tls_files const& files) {
  return std::make_shared<tls_context const>(files);
}

std::optional<std::vector<std::string>> uris_of(X509 const* certificate) {
  int found = -1;
  if (certificate == nullptr) return std::nullopt;
  std::unique_ptr<GENERAL_NAMES, void (*)(GENERAL_NAMES*)> const names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, &found, nullptr)),
      GENERAL_NAMES_free);
  if (!names && found != -1) return std::nullopt;  // -1: it has none
  std::vector<std::string> uris;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    GENERAL_NAME const* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    ASN1_IA5STRING const* const text = name->d.uniformResourceIdentifier;
    uris.emplace_back(reinterpret_cast<char const*>(ASN1_STRING_get0_data(text)),
                      static_cast<std::size_t>(ASN1_STRING_length(text)));
  }
  return uris;
}

std::string tls_failure(SSL const* of) {
  unsigned long const code = ERR_peek_error();
  int const reason = ERR_GET_REASON(code);
  std::string const text = last_reason();
  if (ERR_GET_LIB(code) == ERR_LIB_SSL && reason > alert_base && reason < alert_base + 256)
    return alert_text(reason - alert_base);
  if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
    return "the peer showed no certificate, and TLS needs one of both ends";
  if (long const verdict = SSL_get_verify_result(of); verdict != X509_V_OK)
    return fmt::format("the peer's certificate is not accepted: {}",
                       X509_verify_cert_error_string(verdict));
  return fmt::format("TLS failed: {}", text);
}

}  // namespace rubato::net
