// SPDX-License-Identifier: Apache-2.0
// Sockets that listen for those who look at a job's page.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>

#include "launcher/cli/options.h"
#include "launcher/system/descriptor.h"

namespace rueda {

// Purpose: a socket that listens on a port, and the name of its machine. A movable value.
struct PageSocket {
  Descriptor listening;
  std::string machine;
};

// Thrown where a host has no address.
struct UnknownHost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws UnknownHost, or std::system_error where the address cannot be had. `port` 0: a free one.
PageSocket listen_on_port(const std::string& host, int port);
Descriptor listen_on_path(const std::string& path);
// Somebody listens there, perhaps a process of a container, whose number nobody has here.
bool is_listening_on(const std::string& path);
int port_of(const PageSocket& socket);

// The socket that the user wants; none where no port is free. Throws UsageError where the user has named a
// port that cannot be had.
std::optional<PageSocket> page_socket(const LaunchOptions& options);

// A socket stays in the network of its process when that moves to a virtual host. The program that replaces
// this process inherits it.
void hand_on_page_socket(const LaunchOptions& options);
// In that program, before it starts others: none of them inherits the socket.
void receive_page_socket();
// What has been received, once.
std::optional<PageSocket> handed_page_socket();

}  // namespace rueda
