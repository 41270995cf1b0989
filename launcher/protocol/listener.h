// SPDX-License-Identifier: Apache-2.0
// The socket on which ruedarun waits for agents, and its addresses.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/system/descriptor.h"

namespace rueda {

// A socket that listens on a free port of every address of this machine. Throws std::system_error.
Descriptor listen_for_agents();

// "PORT,ADDRESS,ADDRESS...": the addresses of network cards under which agents on other hosts find the
// socket. Loopback only where there is no card: on another host it leads to whoever listens there.
std::string addresses_of(const Descriptor& listening);

// Purpose: one address that connect() takes.
struct Endpoint {
  sockaddr_storage address{};
  socklen_t length = 0;
};
// The text of addresses_of(), at most 64 of them; empty when it is something else.
std::vector<Endpoint> endpoints_from(const std::string& addresses);

// Notices within some ten seconds that the other machine is gone.
void keep_alive(const Descriptor& socket);

}  // namespace rueda
