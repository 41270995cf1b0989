// SPDX-License-Identifier: Apache-2.0
// The facts of this host: memory, cores, limits, and what is left of old jobs.
#pragma once

#include "launcher/protocol/doctor_message.h"

namespace rueda {

agents::MemoryFacts memory_facts();
agents::CoreFacts core_facts();
// Before this process raises its own limit of open files.
agents::ProcessFacts process_facts();

}  // namespace rueda
