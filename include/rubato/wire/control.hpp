// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <span>
#include <variant>
#include <vector>

#include "rubato/wire/from_coordinator.hpp"
#include "rubato/wire/peers.hpp"
#include "rubato/wire/to_coordinator.hpp"

/// What coordinator, servers, workers and peers say to each other beside updates and parameters. Classes
/// are written by Boost.Serialization; the alternative's number goes first.
namespace rubato::wire {

using control_message =
    std::variant<registration, welcome, ready, add_worker, worker_ended, end_run, pace_note,
                 loss_sample, cut_request, cut_release, farewell, order_done, stage_over,
                 progress_note, tables_wanted, begin_stage, run_begins, worker_starts, server_order, end_stage,
                 run_over, stop_run, admission, expel, pace_command, sample_loss, cut_grant, cut_mark,
                 send_tables, shut_down, come_again, peer_ended, peer_settled, peer_measured, peers_begin,
                 peer_lost, settle, send_share, peers_over>;

[[nodiscard]] std::vector<std::byte> encode(control_message const& message);
/// Sentences come out `printable`, whatever was sent. @throws frame_error when these are no message's bytes
[[nodiscard]] control_message decode_control(std::span<std::byte const> bytes);

}  // namespace rubato::wire
