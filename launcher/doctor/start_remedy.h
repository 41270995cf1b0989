// SPDX-License-Identifier: Apache-2.0
// The way out when ruedarun does not start on a host. Pure.
#pragma once

#include <string>

namespace rueda {

// Purpose: how the program that should start ruedarun on a host has ended. A plain value.
struct FailedStart {
  std::string host;
  std::string method;   // "ssh -x"
  std::string program;  // the path of ruedarun
  int status = 0;       // as a shell shows it
  std::string said;     // its last line
};
std::string remedy_of(const FailedStart& start);

// "See that": of a sentence.
std::string capitalized(std::string text);

}  // namespace rueda
