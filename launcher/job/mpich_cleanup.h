// SPDX-License-Identifier: Apache-2.0
// The shared memory files that MPICH leaves behind when its processes are killed.
#pragma once

#include <set>
#include <string>

namespace rueda {

// Purpose: made before a job, it remembers which files are there; sweep(), after the job, removes those of
// this user that have come since and that no process has open or mapped (another job's stay). Owner: the main
// thread.
class MpichCleanup {
 public:
  explicit MpichCleanup(std::string folder = "/dev/shm");
  void sweep() const;

 private:
  std::set<std::string> files() const;

  std::string folder_;
  std::set<std::string> before_;
};

// Those of `files` that no process has open or mapped.
std::set<std::string> unused(std::set<std::string> files);

// Removes those of `files` that no process has open or mapped.
void remove_unused(std::set<std::string> files);

}  // namespace rueda
