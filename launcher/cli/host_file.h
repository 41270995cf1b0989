// SPDX-License-Identifier: Apache-2.0
// Hosts from the command line, or from a file in the form of horovodrun's --hostfile.
#pragma once

#include <string>
#include <string_view>

namespace rueda {

// Throws UsageError, which begins with `where` it was given, unless it is HOST or HOST:RANKS.
void check_host(std::string_view host, const std::string& where);
// "HOST[:RANKS],...", which is returned. Throws UsageError.
std::string hosts_from_list(const std::string& text);
// Lines "HOST", "HOST slots=RANKS" or "HOST:RANKS", # for remarks; returns "HOST:RANKS,...", as Hydra wants
// it. Throws UsageError that names the file and the line.
std::string hosts_from_file(const std::string& path);
std::string hosts_from_text(const std::string& text, const std::string& path);

}  // namespace rueda
