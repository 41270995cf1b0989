// SPDX-License-Identifier: Apache-2.0
// The files of a dump.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launcher/dump/dump_text.h"

namespace rueda {

// What has been written. A plain value.
struct WrittenDump {
  std::string folder;
  std::vector<std::string> files;  // their names in it
  std::string summary;
  std::string error;  // why there is no dump, or no whole one; else empty
};

// Writes "rank_0" and so on for torchfrtrace, one for each rank that has answered, and "job.txt" for people,
// into a new folder. Its name, in `parent`, begins with rueda-dump and has the time and the process; an
// older one is never touched. `answers`: of the agents, by rank; they may be anything. Takes as long as the
// disk does: not for the loop of ruedarun.
WrittenDump write_dump(const std::string& parent, const DumpFacts& facts,
                       const std::map<int, std::string>& answers);

}  // namespace rueda
