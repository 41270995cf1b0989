// SPDX-License-Identifier: Apache-2.0
// The side of an agent of its connection with ruedarun.
#pragma once

#include <chrono>

#include "core/base/system/frame_stream.h"
#include "launcher/job/environment.h"

namespace rueda {

// Tries every address, again and again, until one answers with the proof that it is the ruedarun of this job.
// An empty stream when none does. Blocks: called before the rank starts.
FrameStream connect_to_supervisor(const Supervision& supervision, int rank,
                                  std::chrono::milliseconds patience = std::chrono::seconds(10));

}  // namespace rueda
