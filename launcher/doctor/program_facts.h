// SPDX-License-Identifier: Apache-2.0
// The software of this host: Rueda, MPI and devices, and PROGRAM with its Python.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launcher/protocol/doctor_message.h"

namespace rueda {

// Of this process, its working folder and its environment. `program`: PROGRAM ARGS..., or nothing. Python is
// asked until the other side of the socket `line` ends; -1: there is none.
agents::SoftwareFacts software_facts(const std::vector<std::string>& program, int line = -1);

// The Python that runs PROGRAM: itself, or that of a script's first line. Empty: PROGRAM is something else.
std::string python_of(const std::string& program);

// All that a command prints on both streams, within `longest` and while the other side of the socket `line`
// is there. Then it is killed, and with it all of its process group. Throws std::system_error.
struct ProgramOutput {
  std::string text;  // at most 64 KiB
  int status = 0;    // of wait()
  bool is_late = false;
};
ProgramOutput output_within(const std::vector<std::string>& command, std::chrono::seconds longest,
                            int line = -1);

}  // namespace rueda
