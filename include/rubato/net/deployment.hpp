// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "rubato/core/busy_poll.hpp"
#include "rubato/net/address.hpp"
#include "rubato/net/log_format.hpp"
#include "rubato/net/security.hpp"
#include "rubato/wire/role.hpp"

namespace rubato::net {

// It travels, too, so it is defined there; here is where users look for it.
using wire::role;
using wire::to_string;

/// What becomes of a run when a worker is lost. Of a peer its protocol says it.
enum class on_loss : std::uint8_t {
  end,    ///< it ends with an error, everywhere; before the first run another may take its place
  /// It goes on without the worker, and without one whose body throws; a stage of a task may begin again instead, see
  /// `stage_options::restarts`.
  go_on,
};

/// What a server takes from one worker process. Who goes beyond is cut off with a sentence that says why, and nothing
/// more is taken from it: its run ends with a `lost_error` of that sentence, that of the others as `on_loss` says.
/// What has been taken before stays, of a commit that is folded while it arrives the pieces before the one at fault.
struct server_limits {
  /// Commits and values with NaN or infinity in them are refused.
  bool check_finite = false;
  /// Rows of tables that are not bounded that a process's commits have named before any other's: they stay, so
  /// they count for its later lives, too. 0: no limit. With a limit the server keeps the number of each such row once
  /// more, about 20 bytes.
  std::uint64_t rows_max = 0;
  /// Bytes that a server keeps for a process at one time: those rows, each with its number; its commits that are held
  /// back; answers that it has not read; and the rows and cuts that its waiting questions name. What it is sending is
  /// not counted before it is there. 0: no limit, but what `server_process` sets for commits and answers.
  std::uint64_t bytes_max = 0;
};

/// Characters of the path of a coordinator's Unix-domain socket that leave room for what servers and peers add to it,
/// who listen beside it: of 107 that such a path may have.
inline constexpr std::size_t coordinator_path_max = 107 - 28;

/// A process's place in a run of several processes.
struct deployment {
  role as = role::worker;  ///< what this process is
  /// Its number among those of its role, from 0; without one the coordinator gives the next.
  std::optional<std::uint32_t> rank = {};
  std::uint32_t workers = 1;  ///< worker processes that a run begins with
  std::uint32_t servers = 1;  ///< server processes; 0 for peers, which have none
  /// Where others reach the coordinator. It listens there; where that is a name beyond this machine, at
  /// this port of all networks.
  address coordinator = {};
  /// Where this server, or peer, listens, if not where `listening` says.
  std::optional<address> listen = {};
  /// Where others reach this server, or peer, if not where it listens: behind a forwarder, for example. Who
  /// listens on all addresses is reached by the one from which it reaches the coordinator.
  std::optional<address> announce = {};
  security keys = {};  ///< what processes prove to each other; the same on all
  on_loss when_lost = on_loss::end;  ///< what becomes of the run
  /// A connection on which nothing comes for so long is taken for broken. The same on all, as a process says that
  /// it is there several times in its own; the coordinator refuses who has another.
  std::chrono::milliseconds silence{5000};
  /// A process whose connection broke may come back within this time; then it is lost.
  std::chrono::milliseconds reconnect{2000};
  /// How many connections to a process may break in a row without progress: without our next frame being acknowledged,
  /// or, where what came was no frame or broke off, without a whole one arriving. Then sending it again does not
  /// help, and the process is lost; the error says why the last one broke. They are made at growing intervals, so that
  /// 20 take about four seconds. A worker that waits for parameters may wait through as many breaks as it likes before
  /// these begin to come.
  std::uint32_t breaks_max = 20;
  /// Whether processes on one machine share memory: workers of the same user that reach a server through a Unix-domain
  /// socket read its dense tables where they lie, and it reads whole updates of these where they lie; peers read so what
  /// others send them. Where one end does not want to, or the system does not let it, all comes through the socket.
  bool share_memory = true;
  /// How long this process, where it waits for others, looks for what comes before it sleeps; see `busy_poll`. 0: it
  /// sleeps at once. Where processes of one machine have a core each, most answers come sooner than one could be woken.
  /// Of several threads that wait, the one looks that serves the network.
  std::chrono::microseconds busy_poll = usual_busy_poll;
  /// Of a server: what one worker process may make it hold.
  server_limits limits{};
  /// How long all of a start may take: until the coordinator answers, until all are there, and, from when one of
  /// them is ready for the first run, until all are. Whoever waits says after three seconds for whom, and again.
  /// For so long, or for `silence` and `reconnect` where they are more, a process that ends waits for the coordinator
  /// to hear of it, too.
  std::chrono::milliseconds patience{60000};
  /// Who waits for others in a run for so long is logged, with whom it waits for, and again each time that it has become
  /// twice as long: of workers by the servers, of peers by themselves. 0: never.
  std::chrono::milliseconds long_wait{60000};
  /// What shows the coordinator that a process which comes with a number is the one before, started again: whose
  /// connection is broken is then replaced at once. Another for each place, and known to nobody else; rubato-launch
  /// draws one. Empty: who is started again waits for `reconnect`, as anybody could come with that number.
  std::string place_key = {};
  /// How this process writes the log from when it takes part, see `set_log_format`; nothing: as before.
  std::optional<log_format> logs = {};

  /// As launchers say it. `look_up` is asked for each variable.
  ///
  /// | variable | meaning |
  /// |---|---|
  /// | `RUBATO_ROLE` | `worker`, `server` or `coordinator`; `RANK` and `WORLD_SIZE` then count workers only |
  /// | `RUBATO_SERVERS` | number of server processes, 1 if not set; 0 for peers |
  /// | `RUBATO_COORDINATOR` | its address, in any form; wins over the next two |
  /// | `MASTER_ADDR`, `MASTER_PORT` | its host and port, 127.0.0.1 and 29500 if not set; under Slurm the first node |
  /// | `RANK`, else `OMPI_COMM_WORLD_RANK`, else `SLURM_PROCID` | this process's number |
  /// | `WORLD_SIZE`, else `OMPI_COMM_WORLD_SIZE`, else `SLURM_NTASKS` | how many processes there are |
  /// | `RUBATO_LISTEN` | where a server or peer listens, if not where `listening` says |
  /// | `RUBATO_ANNOUNCE` | where others reach it, if elsewhere |
  /// | `RUBATO_TOKEN`, `RUBATO_TOKEN_FILE` | the shared secret, or the file that holds it |
  /// | `RUBATO_PLACE_KEY` | see `place_key` |
  /// | `RUBATO_TLS_CERTIFICATE`, `RUBATO_TLS_KEY`, `RUBATO_TLS_AUTHORITY` | files; all three or none |
  /// | `RUBATO_BEYOND_LOOPBACK` | `1` allows listening beyond this machine, with a token or certificates |
  /// | `RUBATO_ON_LOSS` | `end` or `go-on` |
  /// | `RUBATO_SILENCE`, `RUBATO_RECONNECT`, `RUBATO_PATIENCE` | seconds, fractions allowed |
  /// | `RUBATO_LONG_WAIT` | the same: see `long_wait` |
  /// | `RUBATO_BREAKS_MAX` | breaks in a row that are of no use |
  /// | `RUBATO_SHARE_MEMORY` | `0`: see `share_memory` |
  /// | `RUBATO_BUSY_POLL` | microseconds: see `busy_poll` |
  /// | `RUBATO_LOG_FORMAT` | `text`, `keyvalue` or `json` |
  /// | `RUBATO_CHECK_FINITE`, `RUBATO_ROWS_MAX`, `RUBATO_BYTES_MAX` | of servers: see `server_limits` |
  ///
  /// Without `RUBATO_ROLE` and with more than one process, all run the same command: number 0 is the
  /// coordinator, the next are the servers, if there are any, all others workers, whose ranks start at 0.
  /// @throws option_error that names the variable, its value and what was expected
  [[nodiscard]] static deployment from_environment(
      std::function<std::optional<std::string>(std::string_view)> const& look_up);
  /// From this process's environment.
  [[nodiscard]] static deployment from_environment();

  /// Where this server, or peer, listens if nobody says: on a free port of the loopback network; of all networks
  /// where the coordinator is beyond this machine's loopback and `security::beyond_loopback` allows it; where the
  /// coordinator has a Unix-domain socket, on another one beside that, unless its path is too long, or others reach
  /// this process elsewhere (`announce`). The path of a socket is absolute, as others hear of it in other folders.
  [[nodiscard]] address listening() const;

  /// @throws option_error for what cannot be meant, and where other machines could reach this
  /// process without a token or certificates
  void check() const;
};

}  // namespace rubato::net
