// SPDX-License-Identifier: Apache-2.0
// Arguments of the public operations, as fields of a Submission.
#pragma once

#include "core/control/messages/request.h"
#include "core/engine/submissions/submission.h"
#include "rueda/process_set.h"
#include "rueda/reduction.h"

namespace rueda {

// The operation takes place in `scope`.
inline void set_scope(Submission& submission, const Scope& scope) {
  submission.request.process_set = scope.process_set();
  submission.members = scope.ranks();
  submission.awaited = scope.is_awaited();
}

// The request travels with these options.
void set_reduction(Request& request, const Reduction& reduction);

}  // namespace rueda
