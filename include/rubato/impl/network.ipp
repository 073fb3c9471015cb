// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/impl/acceptor.ipp"
#include "rubato/net/impl/address.ipp"
#include "rubato/net/impl/asio_network.ipp"
#include "rubato/net/impl/connection.ipp"
#include "rubato/net/impl/deployment.ipp"
#include "rubato/net/impl/dial.ipp"
#include "rubato/net/impl/frame_reader.ipp"
#include "rubato/net/impl/frame_writer.ipp"
#include "rubato/net/impl/handshake.ipp"
#include "rubato/net/impl/link.ipp"
#include "rubato/net/impl/listener.ipp"
#include "rubato/net/impl/log.ipp"
#include "rubato/net/impl/opening.ipp"
#include "rubato/net/impl/stream.ipp"
#include "rubato/net/impl/tls.ipp"
#include "rubato/net/impl/tls_context.ipp"
