// SPDX-License-Identifier: Apache-2.0
// The rules for every submission of a rank.
#pragma once

#include <vector>

#include "core/engine/submissions/submission.h"
#include "rueda/rank_set.h"

namespace rueda {

// Purpose: refuses submissions that cannot mean anything in this job, and adds what its settings say. Owned
// by the Runtime; any thread may call it.
class SubmissionRules {
 public:
  SubmissionRules() = default;
  SubmissionRules(Rank rank, Rank size, ReductionOrder order) : rank_(rank), world_(0, size), order_(order) {}

  // Both throw InvalidArgument.
  void check(const Submission& submission) const;
  void check_group(const std::vector<Submission>& group) const;
  // Adds what the settings of the job say, and what the operation needs on a rank that is not its root. Takes
  // away what means nothing for this operation. Throws BackendError where memory is short.
  void complete(Submission& submission) const;
  ReductionOrder reduction_order() const { return order_; }

 private:
  void complete(Request& request) const;
  void complete_around_root(Submission& submission) const;

  Rank rank_ = 0;
  RankSet world_;  // all ranks
  ReductionOrder order_ = ReductionOrder::any;
};

}  // namespace rueda
