// SPDX-License-Identifier: Apache-2.0
// Changes the tuning parameters while the job runs.
#pragma once

#include "core/base/time.h"
#include "core/control/messages/request.h"
#include "core/control/scheduling/tuning_parameters.h"

namespace rueda {

// Purpose: hears when requests become ready, and says which parameters are in force. Called by the
// Coordinator, which it outlives.
class Tuner {
 public:
  // A request is ready. Returns whether the parameters have changed.
  virtual bool ready(const SharedRequest& request, Time now) = 0;
  // All that are ready have been looked at.
  virtual void looked(bool others_on_their_way) = 0;
  virtual const TuningParameters& parameters() const = 0;

 protected:
  ~Tuner() = default;
};

}  // namespace rueda
