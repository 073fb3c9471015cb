// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <pthread.h>

#include <cstddef>

namespace rubato::test {

/// While it lives no thread can be started: its stack would not fit.
class no_more_threads {
 public:
  no_more_threads() {
    pthread_attr_t huge;
    pthread_getattr_default_np(&before_);
    pthread_getattr_default_np(&huge);
    pthread_attr_setstacksize(&huge, std::size_t{1} << 48);
    pthread_setattr_default_np(&huge);
    pthread_attr_destroy(&huge);
  }
  no_more_threads(no_more_threads const&) = delete;
  no_more_threads& operator=(no_more_threads const&) = delete;
  ~no_more_threads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_{};
};

}  // namespace rubato::test
