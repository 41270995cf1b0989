// SPDX-License-Identifier: Apache-2.0
// The software of this host: Rueda, MPI and devices, and PROGRAM with its Python.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launcher/protocol/doctor_message.h"

namespace rueda {

// Of this process, its working folder and its environment. `program`: PROGRAM ARGS..., or nothing.
agents::SoftwareFacts software_facts(const std::vector<std::string>& program);

// The Python that runs PROGRAM: itself, or that of a script's first line. Empty: PROGRAM is something else.
std::string python_of(const std::string& program);

// All that a command prints on both streams, within `longest`; then it is killed. Throws std::system_error.
struct ProgramOutput {
  std::string text;  // at most 64 KiB
  int status = 0;    // of wait()
  bool is_late = false;
};
ProgramOutput output_within(const std::vector<std::string>& command, std::chrono::seconds longest);

}  // namespace rueda
