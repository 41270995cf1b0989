// SPDX-License-Identifier: Apache-2.0
// The engine's interface to devices that have memory of their own.
#pragma once

#include <memory>
#include <string>

#include "rueda/fence.h"
#include "rueda/types.h"

namespace rueda {

// Purpose: marks where streams of programs stand. Made by whoever knows the devices (ops); shared by the
// Runtime and its backends; any thread may call it.
class Accelerator {
 public:
  virtual ~Accelerator() = default;
  virtual DeviceKind kind() const = 0;
  // Why there is no device, "no driver: ..."; empty where there is one. Asked first.
  virtual std::string problem() = 0;
  // Behind all that `stream` of that device has been given so far. Throws BackendError in the library's
  // words.
  virtual std::shared_ptr<const Fence> record(int device, DeviceStream stream) = 0;
};

}  // namespace rueda
