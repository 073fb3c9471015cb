// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

namespace CLI {
class App;
}

namespace rubato::bench {

struct message_options {
  int rounds = 7;     ///< measured in turn; medians are shown
  int small = 3000;   ///< messages of a round
  int large = 30;     ///< the same of 16 MB, and sums

  void add_to(CLI::App& command);
};

/// Pulls of one row and of 16 MB over MPI, each beside the ping-pong of plain MPI of the same sizes between the same
/// two ranks, and all_reduce of a million floats, with collectives and without, beside MPI_Allreduce, in turn.
/// Prints a table in rank 0. Collective, three ranks: rank 0 coordinates, 1 serves, 2 pulls; or both are peers.
/// @throws option_error where there are others
void measure_messages(message_options const& o);

}  // namespace rubato::bench
