// SPDX-License-Identifier: Apache-2.0
// One call of an operation, as c10d sees it.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "core/base/error.h"
#include "core/base/time.h"
#include "frameworks/torch/c10d/flight_recorder.h"
#include "frameworks/torch/c10d/operations/device_result.h"
#include "frameworks/torch/c10d/operations/pending_operation.h"
#include "rueda/status.h"

namespace rueda {

class FutureCompleter;

// Purpose: the data of the call that an operation's Work needs. A plain value.
struct GroupCall {
  c10d::OpType type = c10d::OpType::UNKNOWN;
  const char* title = "";             // for profilers: "rueda:all_reduce". It lives for ever
  bool asynchronous = true;           // the caller goes on, and waits later
  std::chrono::milliseconds timeout;  // of waits
  std::vector<at::Tensor> outputs;    // the tensors of result() and of the Future
  std::function<void()> finish;       // writes the received data into the outputs; none: it is there already
  int source = -1;                    // the rank that sends; -1: no rank, or not known yet
  int destination = -1;               // the rank that receives; -1: no message, or this one
  // To a profiler and the flight recorder; nothing: there is none.
  std::optional<std::vector<at::Tensor>> shown;
  std::optional<at::Device> device;  // of the tensors; none: the host
  std::vector<at::Tensor> scratch;   // that `finish` reads or writes besides the outputs
  std::function<Status()> failure;   // of tensors on a device: why the group cannot go on
  std::function<void()> end_parts;   // of coalesced operations: ends those that can end, with their Futures
  bool in_callback = false;          // a callback of a Future has called it

  // Appends `next` to what finishes the call.
  void then(std::function<void()> next, const std::vector<at::Tensor>& uses);
  void show(const std::vector<at::Tensor>& inputs) {
    if (at::hasCallbacks() || FlightRecorder::of_process().is_on()) shown = inputs;
  }
};

// Purpose: how messages name a group, and its stall check. A plain value.
struct GroupInMessages {
  std::string name;             // "group 'default_pg' on rank 0 of 2"
  double stall_check_time = 0;  // seconds
  bool stall_check_disable = false;
};

// Purpose: waits for an operation, and tells how it went. Any thread may wait; the first that sees the end
// finishes the operation, guarded by the mutex. On a device, the host waits until the device has been given
// the operation. The thread's current stream then waits for the result. A barrier alone keeps the host, too.
class GroupWork final : public c10d::Work {
 public:
  GroupWork(int rank, GroupCall&& call, std::shared_ptr<const GroupInMessages> group,
            const std::shared_ptr<FutureCompleter>& completer);

  // Takes the operations, and their sequence number. Called once, before anybody else knows this Work.
  void begin(std::uint64_t number, PendingOperations operations);

  const PendingOperations& operations() const { return operations_; }

  // For the flight recorder, after begin(); and its number there, which the end needs.
  RecordedCall recorded_call() const;
  void is_recorded_as(std::uint64_t number) { recorded_ = number; }

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override { return source_.load(); }
  std::vector<at::Tensor> result() override { return call_.outputs; }
  void synchronize() override { wait(kNoTimeout); }
  void blockCurrentStream() override { wait(kNoTimeout); }
  bool wait(std::chrono::milliseconds timeout) override;
  std::uint64_t getSequencenumber() const override { return number_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override;

  // The host waits for so long; whether it has ended, well or not. A device may still have to do it.
  bool ends_by(Time deadline);
  const std::optional<at::Device>& device() const { return call_.device; }
  // Whether the group's time for its Future is over; the Future then ends with that error. The operation goes
  // on, and keeps its tensors.
  bool times_out();
  // Nobody completes it any more.
  void give_up();

 private:
  void settle();
  void settle_with(const std::function<void()>& outcome);
  void take_outcome();
  std::string remedy_for(const Error& error) const;
  void wait_on_device(std::chrono::milliseconds limit);
  void complete_future();
  void complete(c10::ivalue::Future& future);
  // For one caller alone, so that a Future ends once; null: it has been taken, or there is none.
  c10::intrusive_ptr<c10::ivalue::Future> take_future();
  [[noreturn]] void throw_timed_out(std::chrono::milliseconds limit) const;
  std::string words(const std::string& what) const;
  std::string who_is_missing(Duration limit) const;
  std::exception_ptr failure() const;  // once it is settled

  GroupCall call_;
  const std::shared_ptr<const GroupInMessages> group_;
  const std::weak_ptr<FutureCompleter> completer_;  // a Work may outlive its group
  PendingOperations operations_;
  std::optional<DeviceResult> on_device_;
  std::uint64_t number_ = 0;
  std::optional<std::uint64_t> recorded_;  // set before anybody else knows this Work
  std::atomic<int> source_;
  std::mutex settling_;
  std::atomic<bool> settled_{false};
  std::exception_ptr failure_;                      // guarded by settling_ until settled_
  c10::intrusive_ptr<c10::ivalue::Future> future_;  // guarded by settling_
  Time future_until_ = Time::max();                 // written before the completer knows this Work
  std::atomic<bool> future_complete_{false};
};

}  // namespace rueda
