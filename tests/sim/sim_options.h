// SPDX-License-Identifier: Apache-2.0
// The command line of rueda-sim.
#pragma once

#include <optional>

#include "tests/sim/experiment.h"

namespace rueda {

// Nothing when the command line has been answered already (--help). Throws boost::program_options::error.
std::optional<Experiment> read_options(int argc, char** argv);

}  // namespace rueda
