// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Certificates for tests, made on the spot.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

namespace rubato::test {

/// A key pair and a certificate for it, in memory.
struct identity {
  std::shared_ptr<EVP_PKEY> key;
  std::shared_ptr<X509> certificate;
};

namespace certificates {

inline void require(bool fine) {
  if (!fine) throw std::runtime_error("a certificate for a test could not be made");
}

inline void add_extension(X509* to, X509* issuer, int what, char const* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, to, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, what, value);
  require(extension != nullptr && X509_add_ext(to, extension, -1) == 1);
  X509_EXTENSION_free(extension);
}

inline std::shared_ptr<X509> unsigned_certificate(EVP_PKEY* key, std::string const& name,
                                                  long days_from, long days_to) {
  static long serial = 0;
  std::shared_ptr<X509> const made(X509_new(), X509_free);
  X509_set_version(made.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(made.get()), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(made.get()), days_from * 24 * 60 * 60);
  X509_gmtime_adj(X509_getm_notAfter(made.get()), days_to * 24 * 60 * 60);
  X509_set_pubkey(made.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(made.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<unsigned char const*>(name.c_str()), -1, -1, 0);
  return made;
}

template <class Write>
void write_file(std::string const& path, Write write) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> const file(std::fopen(path.c_str(), "wb"),
                                                             std::fclose);
  require(file != nullptr && write(file.get()) == 1);
}

}  // namespace certificates

/// Signs itself; may sign others.
inline identity make_authority(std::string const& name) {
  identity made;
  made.key.reset(EVP_EC_gen("P-256"), EVP_PKEY_free);
  made.certificate = certificates::unsigned_certificate(made.key.get(), name, -1, 30);
  X509* const c = made.certificate.get();
  X509_set_issuer_name(c, X509_get_subject_name(c));
  certificates::add_extension(c, c, NID_basic_constraints, "critical,CA:TRUE");
  certificates::require(X509_sign(c, made.key.get(), EVP_sha256()) > 0);
  return made;
}

/// Signed by the authority, for this DNS name, valid for so many days from today. `others`: of its other names and
/// numbers, as OpenSSL writes them: ",IP:192.0.2.7".
inline identity make_identity(identity const& authority, std::string const& name,
                              long days_to = 30, std::string const& others = {}) {
  identity made;
  made.key.reset(EVP_EC_gen("P-256"), EVP_PKEY_free);
  made.certificate = certificates::unsigned_certificate(made.key.get(), name, -30, days_to);
  X509* const c = made.certificate.get();
  X509* const by = authority.certificate.get();
  X509_set_issuer_name(c, X509_get_subject_name(by));
  certificates::add_extension(c, by, NID_subject_alt_name, ("DNS:" + name + others).c_str());
  certificates::require(X509_sign(c, authority.key.get(), EVP_sha256()) > 0);
  return made;
}

inline void write_certificate(identity const& of, std::string const& path) {
  certificates::write_file(path, [&](std::FILE* f) { return PEM_write_X509(f, of.certificate.get()); });
}
inline void write_key(identity const& of, std::string const& path) {
  certificates::write_file(path, [&](std::FILE* f) {
    return PEM_write_PrivateKey(f, of.key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
}
inline void write_encrypted_key(identity const& of, std::string pass_phrase, std::string const& path) {
  certificates::write_file(path, [&](std::FILE* f) {
    return PEM_write_PKCS8PrivateKey(f, of.key.get(), EVP_aes_256_cbc(), pass_phrase.data(),
                                     static_cast<int>(pass_phrase.size()), nullptr, nullptr);
  });
}

}  // namespace rubato::test
