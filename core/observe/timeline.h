// SPDX-License-Identifier: Apache-2.0
// Traces one rank while somebody wants it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "core/observe/trace_event.h"
#include "core/observe/trace_file.h"
#include "core/observe/trace_json.h"
#include "rueda/status.h"

namespace rueda {

// Purpose: started and stopped by any thread; while it is on, the background thread pushes events into the
// ring and a thread of the timeline writes them. Nobody waits for a disk but that thread and stop(). Lives in
// the Runtime. The background thread touches tracing(), marks_cycles() and push() alone; the mutex guards the
// rest.
class Timeline {
 public:
  ~Timeline();

  // By the background thread, once, before anything else.
  void set_identity(TraceIdentity identity) { identity_ = std::move(identity); }
  const TraceIdentity& identity() const { return identity_; }

  // Begins to write this rank's file (see path_of_rank). InvalidArgument when it cannot be written, or when a
  // timeline is being written.
  Status start(const std::string& path, bool mark_cycles);
  // The file is complete when this returns. Rank 0 then puts the files of all ranks into its own, if it can
  // reach them, waiting 1 s at most for ranks that have not stopped yet. Ok when nothing was being traced.
  Status stop();
  // The same where the one that is being written has this path.
  Status stop(const std::string& path);

  bool tracing() const { return tracing_.load(std::memory_order_acquire); }
  bool marks_cycles() const { return mark_cycles_.load(std::memory_order_relaxed); }
  void push(const TraceEvent& event) { ring_.load(std::memory_order_relaxed)->push(event); }
  std::uint64_t lost() const;

 private:
  void write(TraceFile& file, std::uint64_t lost_earlier);
  Status end();  // with the lock
  Status merge() const;

  std::mutex mutex_;
  TraceIdentity identity_;  // written once
  std::string path_;
  std::uint64_t session_ = 0;
  std::unique_ptr<EventRing>
      own_ring_;  // made by the first start(), stays: the background thread may be pushing
  std::atomic<EventRing*> ring_{nullptr};
  std::atomic<bool> tracing_{false};
  std::atomic<bool> mark_cycles_{false};

  std::mutex ending_mutex_;
  std::condition_variable ending_condition_;
  bool ending_ = false;              // guarded by ending_mutex_
  std::unique_ptr<TraceFile> file_;  // of the writing thread while there is one
  std::thread writer_;
};

}  // namespace rueda
