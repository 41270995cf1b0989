// SPDX-License-Identifier: Apache-2.0
// Rank 0's address for the processes of one user, at an endpoint that everybody knows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/system/descriptor.h"
#include "ops/bootstrap/address/root_address.h"

namespace rueda {

// Purpose: the host and the port at which rank 0 hands out its credential.
struct MungeEndpoint {
  std::string host;
  std::uint16_t port = 0;
  std::string socket;  // of munge's daemon on this host; empty: libmunge's own choice
};

// Rank 0 gives a credential of munge to all that connect to `listeners`. It carries the endpoint and the
// secret, and processes of the same user alone can open it. `listeners`: those of `endpoint` on rank 0; none
// on others.
std::unique_ptr<RootAddress> address_by_munge(MungeEndpoint endpoint, std::vector<Descriptor> listeners);

}  // namespace rueda
