// SPDX-License-Identifier: Apache-2.0
// Process sets from MPI communicators, for programs that use MPI themselves.
#pragma once

#include "ops/mpi/communicator.h"
