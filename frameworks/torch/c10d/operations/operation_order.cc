// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/operations/operation_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace rueda {

OperationOrder::Begun OperationOrder::begin(Runtime& runtime, Submissions&& submissions, Duration longest) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t number = last_ + 1;
  wait_for_slot(number, longest);
  const std::string name = prefix_ + std::to_string(number % kSlots);
  Handles handles;
  if (submissions.size() == 1) {
    submissions.front().request.name = name;
    handles.push_back(runtime.submit(std::move(submissions.front())));
  } else {
    submissions[0].request.name = name;  // so that one tensor on another rank meets it
    for (std::size_t i = 1; i < submissions.size(); ++i)
      submissions[i].request.name = fmt::format("{}.{}", name, i);
    std::vector<Submission> group(std::move_iterator(submissions.begin()),
                                  std::move_iterator(submissions.end()));
    for (Handle& each : runtime.submit_group(std::move(group))) handles.push_back(std::move(each));
  }
  last_ = number;
  in_flight_[number % kSlots] = handles;
  return {number, std::move(handles)};
}

bool OperationOrder::is_free(std::uint64_t number) const {
  return std::ranges::all_of(in_flight_[number % kSlots], &Handle::done);
}

void OperationOrder::wait_for_slot(std::uint64_t number, Duration longest) {
  if (is_free(number)) return;
  const Time deadline = clock_now() + longest;
  for (const Handle& each : in_flight_[number % kSlots]) {
    if (each.wait_until(deadline)) continue;
    throw Stalled(Status::stalled(
        fmt::format("it cannot begin: operation number {} is not complete, and {} may be in flight",
                    number - kSlots, kSlots)));
  }
}

bool OperationOrder::has_room() const {
  const std::lock_guard lock(mutex_);
  return is_free(last_ + 1);
}

OperationOrder::Submissions one_of(Submission&& submission) {
  OperationOrder::Submissions one;
  one.push_back(std::move(submission));
  return one;
}

std::uint64_t OperationOrder::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

}  // namespace rueda
