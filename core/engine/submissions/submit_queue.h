// SPDX-License-Identifier: Apache-2.0
// The one way from framework threads to the background thread.
#pragma once

#include <atomic>
#include <mutex>
#include <span>
#include <vector>

#include "core/engine/submissions/entry.h"
#include "core/engine/submissions/names_in_flight.h"
#include "rueda/status.h"

namespace rueda {

// Purpose: hands over entries. Any thread pushes; the background thread takes all at once, and frees their
// names when they are complete. Guarded by its mutex. Once closed it refuses, saying why. Lives in the
// Runtime.
class SubmitQueue {
 public:
  // All of them together. Ok; or why the queue was closed, or that a name is in flight (invalid_argument);
  // then they are untouched.
  Status push(std::span<Entry> entries);
  // All there are, into `entries`, which is empty; its room serves those that come next.
  void take(std::vector<Entry>& entries);
  bool empty() const { return !any_.load(); }
  void close(Status why);  // the first reason stays

 private:
  std::atomic<bool> any_{false};
  std::mutex mutex_;
  std::vector<Entry> entries_;
  NamesInFlight names_;
  Status closed_;
};

}  // namespace rueda
