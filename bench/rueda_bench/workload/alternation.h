// SPDX-License-Identifier: Apache-2.0
// Comparisons whose sides run in processes of their own: scripts in bench/peers start both, in alternation.
#pragma once

#include <string>
#include <vector>

namespace rueda::bench {

// Libraries that --against may name beside mpi; "best": all that are installed.
std::vector<std::string> libraries();

// Becomes that script with these arguments. Returns only by an exception: std::runtime_error under a
// launcher, or where there is no Python.
[[noreturn]] void become_script(const std::string& script, const std::vector<std::string>& arguments);

}  // namespace rueda::bench
