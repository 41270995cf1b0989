// SPDX-License-Identifier: Apache-2.0
// Comparisons with libraries whose ranks cannot live beside ours: peers/alternate.py starts both sides.
#pragma once

#include <string>
#include <vector>

namespace rueda::bench {

// What --against may name beside mpi: libraries, or "best", all that are installed.
std::vector<std::string> libraries();

// Becomes alternate.py with the words of this command line, which it reads as we do. Returns only by an
// exception: std::runtime_error under a launcher, or where there is no Python.
[[noreturn]] void become_alternation(int argc, char** argv);

}  // namespace rueda::bench
