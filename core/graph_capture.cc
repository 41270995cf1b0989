// SPDX-License-Identifier: Apache-2.0
// The agreement of ranks before and after each captures its graph: see rueda.h.
#include <fmt/format.h>

#include <exception>
#include <string>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/engine/runtime.h"
#include "core/submission_arguments.h"
#include "rueda/rueda.h"

namespace rueda {
namespace {

// The highest number that any rank would give its graph: a rank that had joined, or for which one failed, has
// not counted as the others have.
std::uint32_t agreed_number(const Scope& scope, std::uint32_t own) {
  auto number = static_cast<std::int64_t>(own);
  Submission submission;
  submission.request.operation = Operation::allreduce;
  submission.request.dtype = DataType::int64;
  submission.request.shape = {1};
  submission.request.reduce_op = ReduceOp::max;
  submission.output = TensorView(&number, DataType::int64, {1});
  submission.input = submission.output;
  set_scope(submission, scope);
  scope.runtime().submit(std::move(submission), "capture.number").wait();
  return static_cast<std::uint32_t>(number);
}

// NCCL connects the ranks anew, for the graph alone. Throws what is refused here, before any rank is asked.
Handle open_graph(const Scope& scope, int device, std::uint32_t number) {
  Submission submission;
  submission.request.operation = Operation::barrier;
  submission.request.dtype = DataType::uint8;
  submission.request.shape = {0};
  submission.request.device = DeviceKind::cuda;
  submission.request.capture = number;
  submission.input = ConstTensorView(nullptr, DataType::uint8, {0});
  submission.device = device;
  set_scope(submission, scope);
  return scope.runtime().submit(std::move(submission), "capture.begin");
}

// Returns the failures of all ranks, in their order. `own`: of this rank, empty if all is well.
std::string words_of_all(const Scope& scope, const std::string& own) {
  Submission submission;
  submission.request.operation = Operation::allgather;
  submission.request.dtype = DataType::uint8;
  submission.request.shape = {static_cast<std::int64_t>(own.size())};
  submission.input = ConstTensorView(own.data(), DataType::uint8, submission.request.shape);
  set_scope(submission, scope);
  const Handle handle = scope.runtime().submit(std::move(submission), "capture.end");
  handle.wait();
  const TensorView& all = handle.output();
  return {static_cast<const char*>(all.data), all.bytes()};
}

std::exception_ptr failure_of(const std::function<void()>& call) {
  try {
    call();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

std::string words_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    constexpr std::size_t kMost = 500;
    return std::string(error.what()).substr(0, kMost);
  } catch (...) {
    return "an exception that says nothing";
  }
}

}  // namespace

void capture(const std::function<void()>& body, int device, Scope scope) {
  Runtime& runtime = scope.runtime();
  const Rank rank = runtime.topology().rank;
  if (const std::string problem = runtime.device_problem(); !problem.empty()) {
    refuse(fmt::format("capture: rank {} has no device whose work could be captured: there is {}.", rank,
                       problem));
  }
  GraphCaptures& captures = runtime.captures();
  const std::uint32_t own_number = captures.begin(scope.process_set());
  try {
    const std::uint32_t number = agreed_number(scope, own_number);
    captures.agree(scope.process_set(), number);
    open_graph(scope, device, number).wait();
  } catch (...) {
    captures.end(scope.process_set());
    throw;
  }
  const std::exception_ptr failure = failure_of(body);
  const std::string loose = captures.end(scope.process_set());
  std::string own;
  if (failure) {
    const std::string who = fmt::format("rank {}: ", rank), words = words_of(failure);
    own = (words.starts_with(who) ? words : who + words) + "\n";
    log(LogLevel::error,
        "capture: {}Ranks that wait for it in what they capture will be named as stalled; "
        "RUEDA_STALL_SHUTDOWN_TIME ends them.",
        own);
  } else if (!loose.empty()) {
    own = fmt::format("rank {} has not waited for {} in what it captured\n", rank, loose);
  }
  std::string words;
  const std::exception_ptr unheard = failure_of([&] { words = words_of_all(scope, own); });
  if (failure) std::rethrow_exception(failure);
  if (unheard) std::rethrow_exception(unheard);
  if (words.empty()) return;
  throw BackendError(Status::backend_error(
      fmt::format("capture: {}No rank may run its graph; capture it again on all of them.", words)));
}

}  // namespace rueda
