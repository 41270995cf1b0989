// SPDX-License-Identifier: Apache-2.0
// What members of a fake communicator ask for together, and what comes of it.
#pragma once

#include <nccl.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rueda/types.h"
#include "tests/fakes/cuda/fake_devices.h"

namespace rueda {

// One call between members.
struct FakeCall {
  std::string what;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
  DataType dtype = DataType::uint8;
  int op = ncclSum;
  int peer = 0;  // or root
};

// What members gave between ncclGroupStart and ncclGroupEnd.
struct FakeRound {
  std::map<int, std::vector<FakeCall>> calls;  // by rank
  std::size_t arrived = 0;
  std::map<int, std::shared_ptr<FakeDevice::Point>> done;
};

struct FakeWindow {
  std::byte* memory = nullptr;
  std::size_t bytes = 0;
};

struct FakeClique {
  int size = 0;
  int connected = 0;
  bool aborted = false;  // by a member: what has not been carried out will not be
  std::vector<FakeRound> rounds;
  std::map<int, std::vector<FakeWindow>> windows;  // by rank
};

// Carries it out; throws std::runtime_error where members do not fit together.
void run_round(FakeClique& clique, FakeRound& round, const std::vector<double>& factors);

}  // namespace rueda
