// SPDX-License-Identifier: Apache-2.0
// Which names are taken, as threads that submit see it.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

#include "core/engine/submissions/entry.h"
#include "rueda/status.h"

namespace rueda {

// Purpose: the names that this rank has in flight, each once in a process set. A thread that submits takes a
// name; the background thread frees it, without a lock, when the operation is complete. The slot of a name
// stays for its next call, until there are many that nobody uses. take() is guarded by the SubmitQueue's
// mutex.
class NamesInFlight {
 public:
  // Takes the names of all entries. If one name is in flight already, takes none and returns the error.
  Status take(std::span<Entry> entries);
  // Does nothing for an Entry whose name was not taken here.
  static void free(Entry& entry);

 private:
  static constexpr std::size_t kSpare = 1024;

  void forget_unused();

  ByKey<std::atomic<bool>> slots_;  // true: taken
  std::size_t most_slots_ = kSpare;
};

}  // namespace rueda
