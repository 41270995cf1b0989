// SPDX-License-Identifier: Apache-2.0
// Arguments of the public operations, as fields of a Submission.
#pragma once

#include <string_view>

#include "core/control/messages/message_pair.h"
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

// The scope of messages, of which this rank is one end. Throws InvalidArgument with the name of the message
// if the scope has no such two ranks, or the job too many.
Scope scope_of_messages(const Scope& scope, std::string_view name, MessagePair pair);

// The output of a sender in the host's memory. A message is carried out as a broadcast in place, which writes
// nothing at its root there.
inline TensorView unwritten(const ConstTensorView& input) {
  return {const_cast<void*>(input.data), input.dtype, input.shape, input.strides};
}

// The request travels with these options.
void set_reduction(Request& request, const Reduction& reduction);

}  // namespace rueda
