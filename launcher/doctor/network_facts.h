// SPDX-License-Identifier: Apache-2.0
// The network cards of this host, and what it knows of the names of others.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launcher/protocol/doctor_message.h"

namespace rueda {

// One address of each card that is up, IPv4 where it has one, without loopback; or of each of `chosen`, names
// or addresses by commas, in that order. Ports are 0.
std::vector<agents::CardFacts> cards_here(const std::string& chosen);

// Asks until `longest` is over; later names have a problem that says so. A request itself may take longer.
std::vector<agents::NameFacts> look_up(const std::vector<std::string>& names, std::chrono::seconds longest);

bool is_loopback(const std::string& address);
// Those without an address, and with one of loopback; at most `most`.
std::vector<agents::NameFacts> doubtful(const std::vector<agents::NameFacts>& names, std::size_t most);

std::int32_t infiniband_devices();

}  // namespace rueda
