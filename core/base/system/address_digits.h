// SPDX-License-Identifier: Apache-2.0
// Internet addresses as text.
#pragma once

#include <sys/socket.h>

#include <string>

namespace rueda {

// "10.0.0.1", "fd00::2". Empty for no address, for one that needs the name of its card, too, and for one of
// another kind.
std::string digits_of(const sockaddr* address);

}  // namespace rueda
