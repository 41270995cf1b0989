// SPDX-License-Identifier: Apache-2.0
// Where the running jobs of a user can be asked for their status.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace rueda {

// $XDG_RUNTIME_DIR/rueda or /tmp/rueda-UID, made where it is not there. Nothing where it is not this user's
// alone: somebody else may have made it.
std::optional<std::string> jobs_folder();
// That of another process of this user, by its own environment.
std::optional<std::string> jobs_folder_of(pid_t process);

// The Unix socket of the ruedarun with this process number.
std::string socket_of_job(const std::string& folder, pid_t ruedarun);

// The process numbers of all that have one there. Sockets of processes that are gone are removed.
std::vector<pid_t> jobs_in(const std::string& folder);

}  // namespace rueda
