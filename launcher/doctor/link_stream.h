// SPDX-License-Identifier: Apache-2.0
// Bytes over one connection within a time, and how fast they came.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "launcher/system/descriptor.h"

namespace rueda {

using LinkTime = std::chrono::steady_clock::time_point;

// Until all bytes are through; false where the other side ends, or `until` comes. The socket does not block.
bool send_all(const Descriptor& socket, std::span<const std::byte> bytes, LinkTime until);
bool receive_all(const Descriptor& socket, std::span<std::byte> bytes, LinkTime until);

// Sends for so long, at most 256 MiB. False on an error.
bool send_for(const Descriptor& socket, std::chrono::milliseconds time);
// Takes what send_for() sends. Returns bytes a second, without the first part, in which the connection
// gathers speed. Nothing on an error.
std::optional<std::uint64_t> receive_for(const Descriptor& socket, std::chrono::milliseconds time);

// Sends at once, and keeps little that is not sent yet, so that a slow connection ends in time.
void prepare_for_measurement(const Descriptor& socket);

}  // namespace rueda
