// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/group_operations.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/config.h"
#include "core/base/error.h"
#include "core/base/system/fork_guard.h"
#include "core/engine/memory/symmetric_memory.h"
#include "frameworks/torch/c10d/operations/signature.h"
#include "frameworks/torch/c10d/operations/tensor_bytes.h"
#include "frameworks/torch/c10d/operations/training_marks.h"

namespace rueda {
namespace {

using c10::intrusive_ptr;

// Ranks mostly destroy a group at the same time. One that is late must not keep the others.
constexpr std::chrono::milliseconds kWaitForOthers{200};

bool reduces(c10d::OpType type) {
  using enum c10d::OpType;
  return type == ALLREDUCE || type == ALLREDUCE_COALESCED || type == REDUCE || type == REDUCE_SCATTER ||
         type == _REDUCE_SCATTER_BASE;
}

// In the order of c10d::OpType; names are gloo's where it has the operation.
constexpr std::array<std::string_view, 19> kOperations{"broadcast",
                                                       "all_reduce",
                                                       "all_reduce",
                                                       "reduce",
                                                       "all_gather",
                                                       "all_gather_into_tensor",
                                                       "all_gather",
                                                       "gather",
                                                       "scatter",
                                                       "reduce_scatter",
                                                       "all_to_all",
                                                       "all_to_all",
                                                       "send",
                                                       "recv",
                                                       "recvAnySource",
                                                       "barrier",
                                                       "reduce_scatter_tensor",
                                                       "coalesced",
                                                       "sparse_all_reduce"};

PendingOperations pending(OperationOrder::Handles handles) {
  PendingOperations operations;
  for (Handle& handle : handles) operations.emplace_back(std::move(handle));
  return operations;
}

Submission message_of(const at::Tensor& tensor) {
  Submission message = moving(Operation::broadcast, tensor, tensor);
  message.into_output = false;
  sign(message.request, c10d::OpType::SEND);  // on both sides
  return message;
}

// Where the tensors are; none: on the host.
std::optional<at::Device> device_of(const Submission& submission) {
  if (submission.request.device == DeviceKind::host) return std::nullopt;
  return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(submission.device));
}

// A group of `runtime`'s ranks, with its messages.
std::shared_ptr<GroupJob> add_job(std::unique_ptr<Runtime> runtime, const intrusive_ptr<c10d::Store>& store,
                                  const GroupNames& names, StartGroup start) {
  const Topology& topology = runtime->topology();
  auto messages = std::make_unique<PointToPoint>(
      store_of_job(store, *runtime), topology.rank, topology.size,
      PointToPoint::Names{names.group, names.ranks}, topology.local_size < topology.size,
      GroupOfPairs{std::move(start), [of = runtime.get()] { return of->failure(); }});
  return GroupJobs::of_process().add(std::move(runtime), std::move(messages));
}

// With the ranks that nobody has given.
GroupNames complete(GroupNames names, int size) {
  if (!names.ranks.empty()) return names;
  names.ranks.resize(static_cast<std::size_t>(size));
  std::iota(names.ranks.begin(), names.ranks.end(), std::uint64_t{0});
  return names;
}

// Calls `begin` and turns its errors into those of c10d.
template <class Begin>
void with_errors_of_c10d(std::string_view title, const std::string& group, Begin begin) {
  try {
    begin();
  } catch (const InvalidArgument& error) {
    C10_THROW_ERROR(ValueError, fmt::format("{} of {}: {}", title, group, error.what()));
  } catch (const Error& error) {
    C10_THROW_ERROR(DistBackendError, fmt::format("{} of {}: {}", title, group, error.what()));
  }
}

std::shared_ptr<const GroupInMessages> in_messages(std::string name) {
  const Config config = config_from_environment();
  return std::make_shared<const GroupInMessages>(
      GroupInMessages{std::move(name), config.stall_check_time, config.stall_check_disable});
}

}  // namespace

Titles::Titles(const std::string& backend) {
  static std::mutex mutex;
  static auto& all = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  for (std::size_t i = 0; i < kOperations.size(); ++i)
    titles_[i] = all.insert(fmt::format("{}:{}", backend, kOperations[i])).first->c_str();
}

GroupOperations::GroupOperations(std::unique_ptr<Runtime> runtime, const intrusive_ptr<c10d::Store>& store,
                                 int rank, int size, GroupNames names, std::chrono::milliseconds timeout,
                                 StartGroup start)
    : rank_(rank),
      size_(size),
      names_(complete(std::move(names), size)),
      in_messages_(in_messages(fmt::format("group '{}' on rank {} of {}", names_.group, rank, size))),
      titles_(names_.backend),
      timeout_(timeout.count()),
      record_(names_.group, names_.ranks, rank),
      job_(add_job(std::move(runtime), store, names_, std::move(start))) {
  describe_calls_by(call_of);
}

GroupOperations::~GroupOperations() { GroupJobs::of_process().retire(job_); }

GroupCall GroupOperations::make_call(c10d::OpType type, bool asynchronous,
                                     std::chrono::milliseconds timeout) const {
  GroupCall call;
  call.type = type;
  call.title = titles_[type];
  call.asynchronous = asynchronous;
  call.in_callback = job_->completer()->on_its_thread();
  call.timeout = timeout < std::chrono::milliseconds::zero() ? this->timeout() : timeout;
  return call;
}

intrusive_ptr<c10d::Work> GroupOperations::begin(GroupCall&& call, Submission&& submission) {
  return begin(std::move(call), one_of(std::move(submission)));
}

intrusive_ptr<c10d::Work> GroupOperations::begin(GroupCall&& call,
                                                 OperationOrder::Submissions&& submissions) {
  const bool awaited = !call.asynchronous && !coalesced_.here();
  for (Submission& each : submissions) {
    each.awaited = awaited;
    sign(each.request, call.type);
  }
  mark_group_operation(reduces(call.type));
  const Duration limit = call.timeout;
  const std::string_view title = call.title;
  call.device = device_of(submissions.front());
  if (call.device) last_device_.store(call.device->index());
  auto work = make_work(std::move(call));
  with_errors_of_c10d(title, in_messages_->name, [&] {
    OperationOrder::Begun begun = job_->order().begin(job_->runtime(), std::move(submissions), limit);
    work->begin(begun.number, pending(std::move(begun.handles)));
  });
  record_.note(*work);
  if (hook_) hook_->watch(*work);
  if (!coalesced_.note(work) && awaited) work->wait(kNoTimeout);
  return work;
}

std::optional<at::Device> GroupOperations::last_device() const {
  const int index = last_device_.load();
  if (index < 0) return std::nullopt;
  return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(index));
}

// A Work may outlive the job.
std::function<Status()> GroupOperations::failure_later() const {
  return [later = std::weak_ptr<GroupJob>(job_)] {
    const std::shared_ptr<GroupJob> job = later.lock();
    return job ? job->runtime().failure() : Status();
  };
}

intrusive_ptr<GroupWork> GroupOperations::make_work(GroupCall&& call) const {
  if (call.device) call.failure = failure_later();
  return c10::make_intrusive<GroupWork>(rank_, std::move(call), in_messages_, job_->completer());
}

intrusive_ptr<c10d::Work> GroupOperations::end_coalescing(GroupCall call) {
  const CoalescedWorks::Works works = coalesced_.end();
  PendingOperations operations;
  for (const auto& each : works) {
    TORCH_CHECK_VALUE(!each->device() || !call.device || each->device() == call.device,
                      "rueda: operations of ", in_messages_->name, " on ", *call.device, " and on ",
                      each->device().value_or(at::kCPU), " are coalesced; coalesce those of one device");
    if (each->device()) call.device = each->device();
    const PendingOperations& its = each->operations();
    operations.append(its.begin(), its.end());
  }
  call.end_parts = [works] {
    for (const auto& each : works) each->ends_by(Time::min());
  };
  call.finish = [works] {
    for (const auto& each : works) each->wait(kNoTimeout);
  };
  auto work = make_work(std::move(call));
  work->begin(last_number(), std::move(operations));
  return work;
}

at::Tensor GroupOperations::allocate(TensorPool& pool, std::int64_t elements, at::ScalarType type) {
  try {
    return pool.allocate(job_->runtime(), elements, type);
  } catch (const Error& error) {
    C10_THROW_ERROR(DistBackendError, fmt::format("rueda: {}: {}", in_messages_->name, error.what()));
  }
}

void GroupOperations::set_completion_hook(CompletionHook::Function function) {
  TORCH_CHECK(!hook_, "rueda: ", in_messages_->name, " has a completion hook already");
  hook_ = std::make_shared<CompletionHook>(std::move(function));
}

void GroupOperations::wait_for_completion_hook() {
  if (hook_) hook_->wait_for_all();
}

std::shared_ptr<std::byte> GroupOperations::shared_memory(std::size_t bytes) {
  const std::shared_ptr<SymmetricMemory>& memory = job_->runtime().tensor_memory();
  return memory ? memory->allocate(bytes) : nullptr;
}

intrusive_ptr<c10d::Work> GroupOperations::message(GroupCall call, const at::Tensor& tensor, int peer,
                                                   const BeginMessage& begin_message) {
  const std::string_view title = call.title;
  Submission submission = message_of(tensor);
  call.device = device_of(submission);
  auto work = make_work(std::move(call));
  with_errors_of_c10d(title, in_messages_->name, [&] {
    // The message may begin later, when the stream has got more to do.
    job_->runtime().make_ready(submission);
    PendingOperations operations;
    operations.push_back(begin_message(job_->messages(), std::move(submission)));
    work->begin(messages_.fetch_add(1) + 1, std::move(operations));
    coalesced_.note(work);
  });
  if (peer >= 0) record_.note_message(*work, peer);
  if (hook_) hook_->watch(*work);
  return work;
}

intrusive_ptr<c10d::Work> GroupOperations::send(GroupCall call, const at::Tensor& tensor, int to, int tag) {
  const Duration limit = call.timeout;
  return message(std::move(call), tensor, to, [&](PointToPoint& messages, Submission submission) {
    return messages.send(std::move(submission), to, tag, limit);
  });
}

intrusive_ptr<c10d::Work> GroupOperations::receive(GroupCall call, const at::Tensor& tensor, int from,
                                                   int tag) {
  const Duration limit = call.timeout;
  return message(std::move(call), tensor, from, [&](PointToPoint& messages, Submission submission) {
    return messages.receive(std::move(submission), from, tag, limit);
  });
}

intrusive_ptr<c10d::Work> GroupOperations::receive_from_any(GroupCall call, const at::Tensor& tensor,
                                                            int tag) {
  const Duration limit = call.timeout;
  const int from = call.source;  // known in a group of two only; the recorder has no others
  return message(std::move(call), tensor, from, [&](PointToPoint& messages, Submission submission) {
    return messages.receive_from_any(std::move(submission), tag, limit);
  });
}

void GroupOperations::shutdown() {
  if (is_forked_child()) return;
  job_->completer()->stop(kGraceOfFutures);
  job_->end_within(kWaitForOthers);
}

}  // namespace rueda
