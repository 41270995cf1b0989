// SPDX-License-Identifier: Apache-2.0
// Checks of a submission that need no answer from other ranks.
#pragma once

#include "core/engine/submissions/submission.h"
#include "rueda/status.h"

namespace rueda {

// Whether the output of such a submission has the result. A reduce on the host has one on its root only.
bool keeps_result(const Submission& submission, Rank rank);

// Returns ok, or InvalidArgument that names the operation, the tensor, the error and the remedy. `world`: all
// ranks.
Status validate(const Submission& submission, Rank rank, const RankSet& world);

// The same of operations, each of them valid, that are to be a group.
Status validate_group(const std::vector<Submission>& group);

}  // namespace rueda
