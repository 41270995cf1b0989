// SPDX-License-Identifier: Apache-2.0
// Operations on tensors of a device, by Rueda, by NCCL alone, and none.
#pragma once

#include <memory>

#include "bench/rueda_bench/devices/bench_device.h"
#include "bench/rueda_bench/subjects/reference.h"
#include "bench/rueda_bench/subjects/subject.h"
#include "core/engine/runtime.h"
#include "ops/nccl/nccl_library.h"

namespace rueda::bench {

// The whole stack. The device's clock runs from before the submission until the result is on the device. The
// Runtime and the device outlive the Subject.
std::unique_ptr<Subject> device_subject(Runtime& runtime, BenchDevice& device);

// The same operations given to NCCL by the program itself, on a communicator of all ranks. Called by every
// rank. Throws std::runtime_error where NCCL cannot be used, BackendError in NCCL's words.
std::unique_ptr<Reference> nccl_reference(Runtime& runtime, BenchDevice& device, const NcclLibrary& nccl);

// No operation at all: what is left of a time when there is nothing to do.
std::unique_ptr<Reference> idle_reference(BenchDevice& device);

}  // namespace rueda::bench
