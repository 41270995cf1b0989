// SPDX-License-Identifier: Apache-2.0
// The one way from framework threads to the background thread.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "core/engine/submissions/entry.h"
#include "core/engine/submissions/names_in_flight.h"
#include "core/engine/wait/event_count.h"
#include "rueda/status.h"

namespace rueda {

// Purpose: hands over entries. Any thread pushes; the background thread takes all at once, and frees their
// names when they are complete. Guarded by its mutex. Once closed it completes later entries with the
// reason. Lives in the Runtime.
class SubmitQueue {
 public:
  // `doorbell` wakes the background thread.
  explicit SubmitQueue(std::shared_ptr<EventCount> doorbell) : doorbell_(std::move(doorbell)) {}

  // All of them together: the background thread gets them at once. Throws InvalidArgument for a name that is
  // in flight; then they are untouched.
  void push(std::span<Entry> entries);
  // All there are, into `entries`, which is empty; its room serves those that come next.
  void take(std::vector<Entry>& entries);
  bool empty() const { return !any_.load(); }
  void close(Status why);  // the first reason stays
  Status closed() const;   // that reason; ok while it is open

 private:
  std::atomic<bool> any_{false};
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  NamesInFlight names_;
  Status closed_;
  const std::shared_ptr<EventCount> doorbell_;
};

}  // namespace rueda
