// SPDX-License-Identifier: Apache-2.0
// An operation that has begun, or will begin when the ranks that it needs have met.
#pragma once

#include <c10/util/SmallVector.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "core/base/time.h"
#include "rueda/handle.h"
#include "rueda/status.h"

namespace rueda {

// Purpose: gives the Handle of an operation that has not begun yet. The thread that begins it and the threads
// that wait share this object; guarded by its mutex.
class LaterHandle {
 public:
  // One of both is called, once. `source`: the rank whose data come, if it was not known before.
  void set(Handle handle, int source = -1);
  void fail(Status why);

  // Whether one of both has been called.
  bool known_by(Time deadline);
  // After that.
  const Handle& handle() const { return handle_; }
  const Status& status() const { return status_; }
  int source() const { return source_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool known_ = false;
  Handle handle_;
  Status status_;  // why it could not begin; ok where it has
  int source_ = -1;
};

// Purpose: one operation of core's, as a Work waits for it. A value; one thread at a time waits.
class PendingOperation {
 public:
  explicit PendingOperation(Handle handle) : handle_(std::move(handle)) {}
  explicit PendingOperation(std::shared_ptr<LaterHandle> later) : later_(std::move(later)) {}

  // Whether it has ended, well or not.
  bool ends_by(Time deadline) const;
  bool done() const;
  // After that.
  Status status() const;
  // See Handle.
  std::string missing_ranks() const;
  int source() const { return later_ ? later_->source() : -1; }
  // Of a tensor on a device: behind the result. Null for one of the host.
  std::shared_ptr<const Fence> fence() const { return later_ ? later_->handle().fence() : handle_.fence(); }

 private:
  Handle handle_;
  std::shared_ptr<LaterHandle> later_;
};

// Most Works have one.
using PendingOperations = c10::SmallVector<PendingOperation, 1>;

}  // namespace rueda
