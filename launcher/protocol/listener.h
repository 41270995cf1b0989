// SPDX-License-Identifier: Apache-2.0
// Where agents find ruedarun.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/system/descriptor.h"

namespace rueda {

// A socket that listens on a free port: of the loopback address, or of every address of this machine. Throws
// std::system_error.
Descriptor listen_for_agents(bool other_hosts);

// "PORT,ADDRESS,ADDRESS...": the addresses under which agents may find the socket, loopback first.
std::string addresses_of(const Descriptor& listening, bool other_hosts);

// Purpose: one address that connect() takes.
struct Endpoint {
  sockaddr_storage address{};
  socklen_t length = 0;
};
// What addresses_of() wrote, at most 64 of them; empty when it is something else.
std::vector<Endpoint> endpoints_from(const std::string& addresses);

// Notices within some ten seconds that the other machine is gone.
void keep_alive(const Descriptor& socket);

}  // namespace rueda
