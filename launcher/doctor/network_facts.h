// SPDX-License-Identifier: Apache-2.0
// The network cards of this host, and what it knows of the names of others.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "launcher/protocol/doctor_message.h"

namespace rueda {

// One address of each card that is up, IPv4 where it has one, without loopback; or of each of `chosen`, names
// or addresses by commas, in that order. Ports are 0.
std::vector<agents::CardFacts> cards_here(const std::string& chosen);
// Those of `chosen` that a rank would refuse: names of no card here.
std::vector<std::string> absent_cards(const std::string& chosen);

// Megabits a second of a card, from its folder in /sys/class/net; 0: unknown, or a number without a meaning.
std::int32_t speed_of_card(const std::filesystem::path& folder);

// Asks on a thread that is left alone when `longest` is over. So no other thread may change the environment
// from now on. `left`: names without an answer.
struct FoundNames {
  std::vector<agents::NameFacts> names;
  std::int32_t left = 0;
};
FoundNames look_up(const std::vector<std::string>& names, std::chrono::milliseconds longest);

bool is_loopback(const std::string& address);
// Those without an address, and with one of loopback; at most `most`.
std::vector<agents::NameFacts> doubtful(const std::vector<agents::NameFacts>& names, std::size_t most);

std::int32_t infiniband_devices();

}  // namespace rueda
