// SPDX-License-Identifier: Apache-2.0
// One operation while it moves bytes.
#pragma once

#include <string>
#include <string_view>

#include "core/engine/submissions/work_failure.h"
#include "core/observe/training/plan_route.h"
#include "rueda/types.h"

namespace rueda {

// Purpose: a running operation as a machine of small steps. Made by a Backend for one Plan, owned and stepped
// by the background thread alone, destroyed when over (or, when the job cannot go on, undone: the destructor
// gives back what it holds). A step never blocks, spins or sleeps. It may throw WorkFailure, after which it
// is abandoned, and PeerGone; anything else that it throws ends the job.
class Work {
 public:
  enum class Step {
    again,    // something moved; step soon
    waiting,  // nothing to do until somebody else moves
    done,
    given_up,  // over, but abandoned, by this rank or by another: the results are void
  };

  virtual ~Work() = default;
  virtual Step step() = 0;
  // At any time: this Plan has failed on some rank. From the next step on the Work sends no data and touches
  // neither tensors nor buffers. It lets the Works of other ranks end, and tells them of the failure. Data on
  // its way already stays on its way until the Work is over.
  virtual void abandon() = 0;
  // Names the next step for reports and timelines, by a string that lives for ever. Its first word, such as
  // packing, reducing or unpacking, names the phase.
  virtual std::string_view phase() const = 0;
  // How it has moved its data. Asked when it is done.
  virtual PlanRoute route() const = 0;
};

}  // namespace rueda
