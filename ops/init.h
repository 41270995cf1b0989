// SPDX-License-Identifier: Apache-2.0
// How programs start Rueda.
#pragma once

namespace rueda {

// Starts the default Runtime with what this process was launched for: settings from the environment
// (core/base/config.h), ranks from the launcher; without a launcher one rank. A second call before shutdown()
// does nothing. Throws InvalidArgument for a bad setting, BackendError when MPI cannot be used, PeerLost when
// ranks do not come within start_timeout. Their names are told, except while MPI itself starts: it begins
// only when the whole job is there, and does not say who is missing. A later init() then waits again.
void init();

}  // namespace rueda
