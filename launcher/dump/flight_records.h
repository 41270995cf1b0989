// SPDX-License-Identifier: Apache-2.0
// The operations of a job as the flight recorder of torch dumps them, for torchfrtrace.
#pragma once

#include <string>
#include <vector>

#include "launcher/dump/job_recordings.h"

namespace rueda {

// The dump of one rank: a dictionary of protocol 2 of pickle, in the format 2.10 of torch. Operations have
// torch's names, and NCCL's prefix: torchfrtrace takes no others. The operations of a group have the same
// number on all ranks. Operations that some rank may have forgotten, or had joined for, are left out. Rows
// that ranks have in different numbers, as an allgather may, count as one row a rank. Pure.
std::string flight_record(const std::vector<JobGroup>& groups, Rank rank);

// A group has these operations in a flight record, in this order.
bool is_in_flight_record(const JobOperation& operation);

}  // namespace rueda
