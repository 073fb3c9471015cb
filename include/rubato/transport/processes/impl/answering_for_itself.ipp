// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <new>
#include <string>

#include "rubato/core/error.hpp"
#include "rubato/transport/processes/server_process.hpp"
#include "rubato/wire/messages.hpp"

namespace rubato::detail {

/// For what is wrong with a frame its sender answers. If anything else fails, such as a disk, memory or the user's
/// merge, some of a commit may be folded, and others be waiting for what was to follow: the run ends, for all.
template <class F>
void server_process::answering_for_itself(F f) {
  auto const fails = [this](errc code, std::string const& why) {
    fail(code, "server " + std::to_string(self_->value()) + ": " + why);
    over_ = failed_itself_ = true;
    throw error(code, failure_->sentence());
  };
  try {
    f();
  } catch (wire::frame_error const&) {
    throw;
  } catch (std::bad_alloc const&) {
    fails(errc::io, "there is no memory left");
  } catch (error const& e) {
    fails(e.code(), e.what());
  } catch (std::exception const& e) {
    fails(errc::io, e.what());
  } catch (...) {
    fails(errc::io, "something was thrown that is no std::exception");
  }
}

}  // namespace rubato::detail
