// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/group_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "frameworks/torch/c10d/flight_recorder.h"

namespace rueda {

GroupRecord::GroupRecord(std::string name, std::vector<std::uint64_t> ranks, int own)
    : name_(std::move(name)),
      ranks_(std::move(ranks)),
      own_(own),
      number_(FlightRecorder::of_process().add_group(name_, ranks_, own)) {}

void GroupRecord::note(GroupWork& work) {
  FlightRecorder& recorder = FlightRecorder::of_process();
  if (recorder.is_on()) work.is_recorded_as(recorder.note(number_, work.recorded_call(), work.operations()));
}

void GroupRecord::note_message(GroupWork& work, int peer) {
  FlightRecorder& recorder = FlightRecorder::of_process();
  if (!recorder.is_on()) return;
  RecordedCall call = work.recorded_call();
  const int own = own_ < peer ? 0 : 1;
  call.peer = 1 - own;
  std::size_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto [pair, is_first] = pairs_.try_emplace(peer);
    if (is_first) {
      const auto [lower, higher] = std::minmax(own_, peer);
      pair->second.number = recorder.add_group(
          fmt::format("{}: ranks {} and {}", name_, lower, higher),
          {ranks_.at(static_cast<std::size_t>(lower)), ranks_.at(static_cast<std::size_t>(higher))}, own);
    }
    number = pair->second.number;
    call.number = ++pair->second.messages;
  }
  work.is_recorded_as(recorder.note(number, call, work.operations()));
}

}  // namespace rueda
