// SPDX-License-Identifier: Apache-2.0
// How programs start Rueda.
#pragma once

namespace rueda {

// Starts the default Runtime with what this process was launched for: settings from the environment
// (core/base/config.h), ranks from the launcher; without a launcher one rank. A second call before shutdown()
// does nothing. Throws InvalidArgument for a bad setting, BackendError when MPI cannot be used, PeerLost
// naming the ranks that did not come.
void init();

}  // namespace rueda
