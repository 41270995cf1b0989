// SPDX-License-Identifier: Apache-2.0
// The contribution of a rank that has joined to operations that others still carry out.
#pragma once

#include "core/control/messages/plan.h"
#include "core/engine/submissions/entry.h"

namespace rueda {

// An Entry that changes nobody's result: reductions get the operator's identity (0, 1, the largest or the
// smallest value), ragged operations no rows, a broadcast somewhere to go. Nobody waits for its Handle.
// Without memory as yet.
Entry make_joined_contribution(const PlanTensor& tensor);
// Throws WorkFailure.
void give_memory(Entry& contribution);

}  // namespace rueda
