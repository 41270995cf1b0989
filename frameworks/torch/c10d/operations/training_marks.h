// SPDX-License-Identifier: Apache-2.0
// The phases of a training loop, as the operations of groups show them.
#pragma once

namespace rueda {

// All of this does nothing in a process that ruedarun has not started, and in threads beside the training
// loop: other threads than the main one count in a backward pass only.

// A group's operation begins. In a backward pass it reduces gradients. From the first one on, the phase is
// `backward`. From the end of the pass on, it is `wait`, until the actions behind the pass have their
// results; then it is `other`. Outside of a pass it may reduce gradients, too.
void mark_group_operation(bool reduces);

// An optimizer begins its step, and has ended it. Only the first one after reductions of a group counts, and
// one in each backward pass. `counted`: somebody else counts the steps of this optimizer.
void mark_step_begin();
void mark_step_end(bool counted);

}  // namespace rueda
