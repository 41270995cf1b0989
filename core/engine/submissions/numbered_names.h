// SPDX-License-Identifier: Apache-2.0
// Names for operations without one.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "rueda/types.h"

namespace rueda {

// Purpose: counts the operations of a kind in a process set, so that the n-th has one name on every rank.
// Guarded by its mutex.
class NumberedNames {
 public:
  // Names of job 0 do not say so.
  std::string next(std::uint64_t job, std::string_view prefix, ProcessSetId process_set);
  // Counts anew, under names that were not used.
  void restart(ProcessSetId process_set);

 private:
  std::mutex mutex_;
  std::map<std::pair<ProcessSetId, std::string>, std::uint64_t> named_;  // by prefix
  std::map<ProcessSetId, std::uint64_t> restarts_;
};

}  // namespace rueda
