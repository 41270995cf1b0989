// SPDX-License-Identifier: Apache-2.0
// What can be known to be wrong with a submission before any other rank has been asked.
#pragma once

#include "core/engine/submissions/submission.h"
#include "rueda/status.h"

namespace rueda {

// Whether the output of such a submission has the result. A reduce on the host has one on its root only.
bool keeps_result(const Submission& submission, Rank rank);

// Ok, or InvalidArgument that names the operation, the tensor, what is wrong and the remedy. `world`: all
// ranks.
Status validate(const Submission& submission, Rank rank, const RankSet& world);

// The same of operations, each of them valid, that are to be a group.
Status validate_group(const std::vector<Submission>& group);

}  // namespace rueda
