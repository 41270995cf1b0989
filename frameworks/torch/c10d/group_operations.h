// SPDX-License-Identifier: Apache-2.0
// From a call of c10d's to a Work: the common part of all operations of a group.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "core/engine/runtime.h"
#include "core/engine/submissions/submission.h"
#include "frameworks/torch/c10d/coalesced_works.h"
#include "frameworks/torch/c10d/completion_hook.h"
#include "frameworks/torch/c10d/group_job.h"
#include "frameworks/torch/c10d/group_record.h"
#include "frameworks/torch/c10d/group_work.h"
#include "frameworks/torch/c10d/operations/group_store.h"
#include "frameworks/torch/c10d/tensor_pool.h"

namespace rueda {

// Purpose: how messages and profilers name a group. A plain value.
struct GroupNames {
  std::string backend = "rueda";       // under which the program has registered it
  std::string group;                   // c10d's: "0", "default_pg"
  std::vector<std::uint64_t> ranks{};  // of the job; empty: those of the group itself
};

// Purpose: how profilers name the operations of a backend: "rueda:all_reduce". The texts live for ever.
class Titles {
 public:
  explicit Titles(const std::string& backend);
  const char* operator[](c10d::OpType type) const { return titles_.at(static_cast<std::size_t>(type)); }

 private:
  static constexpr std::size_t kTypes = 19;
  std::array<const char*, kTypes> titles_{};
};

// Purpose: begins operations, and knows the group's settings. Owned by the ProcessGroup. Any thread.
class GroupOperations {
 public:
  // `start` has begun `runtime`, and begins jobs of two ranks.
  GroupOperations(std::unique_ptr<Runtime> runtime, const c10::intrusive_ptr<c10d::Store>& store, int rank,
                  int size, GroupNames names, std::chrono::milliseconds timeout, StartGroup start);
  ~GroupOperations();
  GroupOperations(const GroupOperations&) = delete;
  GroupOperations& operator=(const GroupOperations&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const GroupNames& names() const { return names_; }
  std::uint64_t last_number() const { return job_->order().last(); }
  std::chrono::milliseconds timeout() const { return std::chrono::milliseconds(timeout_.load()); }
  void set_timeout(std::chrono::milliseconds timeout) { timeout_.store(timeout.count()); }
  Status failure() const { return job_->runtime().failure(); }
  const Runtime& runtime() const { return job_->runtime(); }

  // With c10d's options of the operation.
  template <class Options>
  GroupCall call(c10d::OpType type, const Options& options) const {
    return make_call(type, options.asyncOp, options.timeout);
  }

  // A call without options: the caller goes on, and the group's timeout holds.
  GroupCall call(c10d::OpType type) const { return make_call(type, true, c10d::kUnsetTimeout); }

  // Begins the group's next operation, and waits for it where the caller would do so at once. Throws
  // c10::DistBackendError and c10::ValueError.
  c10::intrusive_ptr<c10d::Work> begin(GroupCall&& call, Submission&& submission);
  // The same for several submissions, which end together.
  c10::intrusive_ptr<c10d::Work> begin(GroupCall&& call, OperationOrder::Submissions&& submissions);

  // Where the tensors of the last operation were, but for messages: all ranks know the same. None: on the
  // host, or there was none on a device.
  std::optional<at::Device> last_device() const;

  // A message; its GroupCall names the other rank. The tensor is contiguous.
  c10::intrusive_ptr<c10d::Work> send(GroupCall call, const at::Tensor& tensor, int to, int tag);
  c10::intrusive_ptr<c10d::Work> receive(GroupCall call, const at::Tensor& tensor, int from, int tag);
  c10::intrusive_ptr<c10d::Work> receive_from_any(GroupCall call, const at::Tensor& tensor, int tag);

  // From now on, no operation of this thread is waited for, until end_coalescing(): its Work ends with all of
  // them. The thread forgets an earlier start without an end.
  void start_coalescing() { coalesced_.begin(); }
  c10::intrusive_ptr<c10d::Work> end_coalescing(GroupCall call);

  // In the group's memory. Throws c10::DistBackendError.
  at::Tensor allocate(TensorPool& pool, std::int64_t elements, at::ScalarType type);

  // Memory that the ranks of this host share. Null if they share none, or have too little.
  std::shared_ptr<std::byte> shared_memory(std::size_t bytes);

  // From now on the function hears of the end of each operation. Throws c10::Error if there is one.
  void set_completion_hook(CompletionHook::Function function);
  // Returns when it has heard of all that have begun.
  void wait_for_completion_hook();

  // All operations in flight fail, on all ranks.
  void abort() { job_->abort(); }
  // Waits a little for the other ranks.
  void shutdown();

 private:
  using BeginMessage = std::function<PendingOperation(PointToPoint&, Submission)>;
  c10::intrusive_ptr<c10d::Work> message(GroupCall call, const at::Tensor& tensor, int peer,
                                         const BeginMessage& begin_message);
  c10::intrusive_ptr<GroupWork> make_work(GroupCall&& call) const;
  std::function<Status()> failure_later() const;
  GroupCall make_call(c10d::OpType type, bool asynchronous, std::chrono::milliseconds timeout) const;

  const int rank_;
  const int size_;
  const GroupNames names_;
  const std::shared_ptr<const GroupInMessages> in_messages_;
  const Titles titles_;
  std::atomic<std::int64_t> timeout_;  // milliseconds
  std::atomic<std::uint64_t> messages_{0};
  std::atomic<int> last_device_{-1};
  GroupRecord record_;
  CoalescedWorks coalesced_;
  const std::shared_ptr<GroupJob> job_;
  std::shared_ptr<CompletionHook> hook_;  // set before the program begins operations that it is to hear of
};

}  // namespace rueda
