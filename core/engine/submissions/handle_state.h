// SPDX-License-Identifier: Apache-2.0
// The state of one operation, which its Handle and the background thread share.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/time.h"
#include "core/engine/submissions/submission.h"
#include "core/engine/submissions/waiters.h"
#include "core/engine/wait/completion.h"
#include "rueda/status.h"
#include "rueda/tensor_view.h"

namespace rueda {

// Purpose: what keeps an operation's tensors alive, until a thread of the program lets them go. Lives in the
// HandleState.
class KeptOwner {
 public:
  void keep(std::shared_ptr<void> owner) { owner_ = std::move(owner); }
  // Of the background thread, after the watchdog: stays until the end.
  void keep_late(std::shared_ptr<void> owner) {
    if (owner) late_owner_ = std::move(owner);
  }
  // The first call counts: several threads may wait.
  void let_go() {
    if (!let_go_.exchange(true)) owner_.reset();
  }

 private:
  std::shared_ptr<void> owner_;
  std::shared_ptr<void> late_owner_;
  std::atomic<bool> let_go_{false};
};

// Purpose: the words of the last Missing that names the operation. Any thread; guarded by a mutex of the
// process, since words are rare and a HandleState has little room. Lives there.
class MissingRanks {
 public:
  void tell(const std::string& words) {
    auto news = std::make_unique<const std::string>(words);
    const std::lock_guard lock(mutex_);
    words_ = std::move(news);
  }
  std::string in_words() const {
    const std::lock_guard lock(mutex_);
    return words_ ? *words_ : std::string();
  }

 private:
  static inline std::mutex mutex_;
  std::unique_ptr<const std::string> words_;
};

// Those that Handle gives.
struct OutcomeNumbers {
  std::int64_t result = 0;
  double square_sum = 0.0;  // this rank's share
  bool takes_window = false;
};

// Purpose: where an operation's outcome is left. Written once by whoever completes it first (the background
// thread, or the watchdog of a stuck one), read by any thread after done(). Guarded by its atomic state word.
// Held by shared_ptr. It also holds what was asked, which is the background thread's until then: so an
// operation is one allocation, which moves from thread to thread as a pointer.
class HandleState : public Completion {
 public:
  // `waiters`: where who sleeps on this is told to; none for what nobody waits for.
  explicit HandleState(std::shared_ptr<Waiters> waiters = nullptr, Submission&& submission = {})
      : submission(std::move(submission)), waiters_(std::move(waiters)) {}

  // The first call decides; later ones only leave `owner` here, which is what keeps the operation's tensors
  // alive.
  void complete(Status status, std::shared_ptr<void> owner);

  // Whether it was captured into a graph; then whether somebody has waited for it, and so made a stream wait.
  bool captured() const { return submission.ready && submission.ready->captured(); }
  bool joined() const { return joined_.load(); }
  // Blocks until done, and lets go of the tensors. An exception of a WaitCheck leaves this call when the
  // operation needs no memory of the caller any more; see withdraw().
  const Status& wait();
  // The same for a limited time; whether it is done.
  bool wait_until(Time deadline);
  // Of those that complete() has left here, unless a device still has to do with them; whether it has.
  bool let_go();
  const Status& status() const { return status_; }

  Submission submission;
  MissingRanks missing;

  // Set by the Work before completion, read after it.
  TensorView output;
  std::shared_ptr<void> output_memory;
  std::vector<std::int64_t> received_splits;
  OutcomeNumbers numbers;
  bool begun = false;                  // a Work has it; belongs to who has the turn
  std::shared_ptr<const Fence> fence;  // of tensors on a device: behind all that it does with them

 private:
  void wait_awake();
  void wait_asleep(std::optional<Time> deadline = std::nullopt);
  void end_wait();
  bool withdraw();
  bool give_own_memory();

  std::atomic<bool> slept_on_{false};  // somebody sleeps on state_; set before one more look at it
  std::atomic<bool> joined_{false};
  Status status_;
  KeptOwner owner_;
  std::shared_ptr<Waiters> waiters_;
};

// With what counts references it is a block that malloc keeps ready for a thread: of up to 1,032 bytes.
static_assert(sizeof(HandleState) <= 1016);

// Purpose: takes over the background thread's references to completed operations, so that tensors are
// destroyed on a framework thread: by wait(), or for a Handle that nobody waits for when submit and shutdown
// empty the list. Guarded by its mutex.
class ReleaseList {
 public:
  void add(std::vector<std::shared_ptr<HandleState>>& states);  // which is empty then
  void clear();

 private:
  std::atomic<bool> any_{false};  // may be behind
  std::mutex mutex_;
  std::vector<std::shared_ptr<HandleState>> states_;
};

}  // namespace rueda
