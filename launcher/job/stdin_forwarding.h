// SPDX-License-Identifier: Apache-2.0
// How rank 0 gets the standard input of ruedarun.
#pragma once

namespace rueda {

// Hydra ends a job whose rank 0 does not read as fast as input comes, and reads a terminal itself. So rank 0
// gets the very descriptor: mpiexec and its proxy inherit a copy of it, whose number and identity stand in
// the environment. This works where rank 0 runs on the machine of ruedarun; elsewhere its input is empty.

// By the supervisor, before it starts mpiexec; the copy stays open for its children.
void offer_standard_input();

// By each agent: makes the offered descriptor the standard input of rank 0, /dev/null that of the others.
// Reading what Hydra gives to those would hang: it never closes their input.
void take_standard_input(bool first_rank);

}  // namespace rueda
