// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/wire/impl/control.ipp"
#include "rubato/transport/processes/impl/agreement.ipp"
#include "rubato/transport/processes/impl/process_control.ipp"
#include "rubato/transport/processes/impl/coordinator_link.ipp"
#include "rubato/transport/processes/impl/coordinator_process.ipp"
#include "rubato/transport/processes/impl/outbound_frames.ipp"
#include "rubato/transport/processes/impl/server_tables.ipp"
#include "rubato/transport/processes/impl/rows_transfer.ipp"
#include "rubato/transport/processes/impl/local_model.ipp"
#include "rubato/transport/processes/impl/inbound_frames.ipp"
#include "rubato/transport/processes/impl/read_question.ipp"
#include "rubato/transport/processes/impl/server_process.ipp"
#include "rubato/transport/processes/impl/worker_links.ipp"
#include "rubato/transport/processes/impl/worker_process.ipp"
#include "rubato/transport/processes/impl/worker_process_local.ipp"
#include "rubato/transport/processes/impl/serving_process.ipp"
