// SPDX-License-Identifier: Apache-2.0
// One group in the flight recorder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "frameworks/torch/c10d/group_work.h"

namespace rueda {

// Purpose: notes a group's operations and messages in the FlightRecorder of the process. Torch's tool expects
// each operation on all ranks of its group, so two ranks that exchange messages are a group of their own
// there. Any thread; guarded by the mutex.
class GroupRecord {
 public:
  // `ranks`: of the job, of which this process is number `own`.
  GroupRecord(std::string name, std::vector<std::uint64_t> ranks, int own);

  void note(GroupWork& work);
  // `peer`: the other rank, in the group.
  void note_message(GroupWork& work, int peer);

 private:
  struct Pair {
    std::size_t number = 0;  // in the recorder
    std::uint64_t messages = 0;
  };

  const std::string name_;
  const std::vector<std::uint64_t> ranks_;
  const int own_;
  const std::size_t number_;  // in the recorder
  std::mutex mutex_;
  std::map<int, Pair> pairs_;
};

}  // namespace rueda
