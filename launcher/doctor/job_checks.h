// SPDX-License-Identifier: Apache-2.0
// The checks of all hosts together, one idea each.
#pragma once

#include <vector>

#include "launcher/doctor/checks.h"

namespace rueda {

std::vector<Finding> check_answers(const Examination& job);
std::vector<Finding> check_versions(const Examination& job);
std::vector<Finding> check_equal_cores(const Examination& job);
std::vector<Finding> check_clocks(const Examination& job);

}  // namespace rueda
