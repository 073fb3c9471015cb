// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <stdexcept>
#include <string>

namespace rubato {

/// What kind of thing went wrong: lets a caller branch without parsing the sentence.
enum class errc {
  bad_option,     ///< an option's value is out of range or contradicts another
  wrong_size,     ///< a span does not have the size its table or key set asks for
  unknown_key,    ///< a key lies outside its table
  not_finite,     ///< a pushed value is NaN or infinite, and the user asked for the check
  stale_handle,   ///< a worker handle was used after its run ended, or from another thread than its body's
  bad_staleness,  ///< a read asked for more staleness than the protocol allows, or for less where it gives none
  bad_data,       ///< a file's content is malformed
  io,             ///< a file could not be opened, read or written
  deadlock,       ///< every worker waits, or goes round in circles, and nothing can happen any more
  refused,        ///< a message of another stage, incarnation or clock reached a shard; or a process is not let in
  lost,           ///< a peer that others cannot go on without has died, or left too early
  stopped,        ///< another process ended the run, for a reason of its own
  bad_frame,      ///< another process sent what it must not
};

/// Base of all exceptions that Rubato throws; `what()` is one sentence that names the culprit and
/// what was expected.
class error : public std::runtime_error {
 public:
  /// @param sentence what `what()` gives
  error(errc code, std::string const& sentence) : std::runtime_error(sentence), code_(code) {}
  [[nodiscard]] errc code() const noexcept { return code_; }  ///< for programs, as `what()` is for people

 private:
  errc code_;
};

/// An option that cannot be meant; thrown before anything is started.
class option_error : public error {
 public:
  /// The sentence names the option, what it is and what was expected.
  explicit option_error(std::string const& sentence) : error(errc::bad_option, sentence) {}
};

/// A call that breaks the contract of a worker handle or cluster; the run's state is unchanged.
class usage_error : public error {
 public:
  /// With a code, and a sentence that says what was called when it must not be.
  using error::error;
};

/// Input data that cannot be read; the sentence starts with `file:line:` where there is a line.
class data_error : public error {
 public:
  /// The code tells what cannot be parsed from what cannot be opened.
  explicit data_error(std::string const& sentence, errc code = errc::bad_data)
      : error(code, sentence) {}
};

/// A peer is gone and others cannot go on without it; the sentence names both.
class lost_error : public error {
 public:
  /// The sentence names who was lost.
  explicit lost_error(std::string const& sentence) : error(errc::lost, sentence) {}
};

/// Everybody waits and nothing can happen: the sentence lists who waits for what.
class deadlock_error : public error {
 public:
  /// The sentence names who waits for what.
  explicit deadlock_error(std::string const& sentence) : error(errc::deadlock, sentence) {}
};

}  // namespace rubato
