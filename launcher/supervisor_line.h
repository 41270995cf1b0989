// SPDX-License-Identifier: Apache-2.0
// The side of an agent of its connection with ruedarun.
#pragma once

#include "launcher/environment.h"
#include "launcher/frame_stream.h"

namespace rueda {

// Tries every address until one answers with the proof that it is the ruedarun of this job, for ten seconds
// at most. An empty stream when none does. Blocks: called before the rank starts.
FrameStream connect_to_supervisor(const Supervision& supervision, int rank);

}  // namespace rueda
