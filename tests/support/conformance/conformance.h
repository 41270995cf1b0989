// SPDX-License-Identifier: Apache-2.0
// What every backend must do: operation x dtype x reduce op x in place x layout, against a plain reference.
#pragma once

#include <string>

#include "core/engine/runtime.h"

namespace rueda {

// Each is called on all ranks at the same time, and throws std::runtime_error naming the case, the element
// and both values if a result is wrong.
void check_allreduce(Runtime& runtime);
void check_allgather(Runtime& runtime);
void check_broadcast(Runtime& runtime);
void check_alltoall(Runtime& runtime);
void check_reducescatter(Runtime& runtime);
void check_reduce(Runtime& runtime);
void check_gather(Runtime& runtime);
void check_scatter(Runtime& runtime);
void check_messages(Runtime& runtime);
// Of allreduce or reducescatter, which these call: averages of integers whose sums do not fit their type.
void check_averages_of_integers(Runtime& runtime, Operation operation);
void check_adasum(Runtime& runtime);
void check_strides(Runtime& runtime);
void check_barrier(Runtime& runtime);
// Tensors of more than 2 GiB; needs about 4 GiB a rank.
void check_large(Runtime& runtime);

// Differences between ranks are errors on every rank, with the same words; afterwards the names work.
void check_mismatches(Runtime& runtime);
// One name twice in flight.
void check_name_in_flight(Runtime& runtime);

}  // namespace rueda
