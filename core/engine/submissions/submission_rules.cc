// SPDX-License-Identifier: Apache-2.0
#include "core/engine/submissions/submission_rules.h"

#include "core/base/error.h"
#include "core/base/operation_traits.h"
#include "core/engine/submissions/validate.h"

namespace rueda {

void SubmissionRules::check(const Submission& submission) const {
  throw_if_error(validate(submission, rank_, world_));
}

void SubmissionRules::check_group(const std::vector<Submission>& group) const {
  for (const Submission& submission : group) check(submission);
  throw_if_error(validate_group(group));
}

void SubmissionRules::complete(Request& request) const {
  const bool reduces = traits(request.operation).reduces;
  if (!reduces) {
    request.reduction_order = ReductionOrder::any;
  } else if (order_ == ReductionOrder::fixed) {
    request.reduction_order = ReductionOrder::fixed;
  }
  const bool narrows = reduces && request.dtype == DataType::float32 &&
                       request.reduce_op != ReduceOp::adasum &&
                       request.reduction_order == ReductionOrder::any;
  const bool shares = can_send_a_share(request.operation, request.dtype, request.reduce_op);
  if (!narrows || (request.compression == Compression::topk && !shares)) {
    request.compression = Compression::none;
    request.compression_share = 1.0;
  }
}

}  // namespace rueda
