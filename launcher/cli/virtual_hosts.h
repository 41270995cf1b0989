// SPDX-License-Identifier: Apache-2.0
// Hosts of a job's own, as network namespaces of this machine; the script rueda-hosts beside ruedarun makes
// them.
#pragma once

#include <span>
#include <string>

#include "launcher/cli/options.h"

namespace rueda {

// The first word of ruedarun when it stands on the first of its virtual hosts.
inline constexpr const char* kOnVirtualHost = "--on-virtual-host";

// Checks what --virtual-hosts, --rails and --rate say, and sets hosts and network interface accordingly.
// Throws UsageError.
void settle_virtual_hosts(LaunchOptions& options);

// Returns the path of rueda-hosts. Throws UsageError when rueda-hosts is not beside this program.
std::string hosts_program();

// Replaces this process by ruedarun with the same arguments on the first of these hosts, which end with the
// last process on them. The process number stays. If the hosts cannot be made, rueda-hosts tells the reason
// and exits with 77.
[[noreturn]] void move_to_virtual_hosts(const VirtualHosts& wanted, std::span<const std::string> arguments);

// Lines for the user, of ruedarun on the first host.
std::string what_was_made(const VirtualHosts& hosts);
std::string bytes_of_cards();

}  // namespace rueda
