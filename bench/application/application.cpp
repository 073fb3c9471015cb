// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/application/application.hpp"

namespace rubato::bench {

std::string_view name_of(application_kind kind) noexcept {
  switch (kind) {
    case application_kind::mf:
      return "mf";
    case application_kind::lda:
      return "lda";
    case application_kind::lasso:
      return "lasso";
    case application_kind::k_means:
      break;
  }
  return "kmeans";
}

std::unique_ptr<application const> make_application(application_options const& options, data_source const& from) {
  switch (options.kind) {
    case application_kind::mf:
      return make_factorization(options, from);
    case application_kind::lda:
      return make_topics(options, from);
    case application_kind::lasso:
      return make_lasso(options, from);
    case application_kind::k_means:
      break;
  }
  return make_clusters(options, from);
}

}  // namespace rubato::bench
