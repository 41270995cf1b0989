// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads, each with a device, and NCCL between them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/runtime.h"
#include "ops/cuda/cuda_components.h"
#include "ops/nccl/nccl_components.h"
#include "tests/fakes/nccl/fake_nccl.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {

// Purpose: the devices and the NCCL of one test, fakes.
class NcclWorld : public testing::Test {
 protected:
  using Body = std::function<void(Runtime&, FakeDevice&)>;

  // `on_device`: which one each rank has.
  void run(
      Rank ranks, const Body& body, const Config& config = {},
      const std::function<std::string(Rank)>& on_device = [](Rank rank) { return std::to_string(rank); },
      Rank ranks_per_host = 0) {
    MemoryNetwork& network = network_.emplace(ranks, 0, ranks_per_host);
    for (Rank rank = 0; rank < ranks; ++rank) {
      devices_.push_back(std::make_shared<FakeDevices>(static_cast<unsigned>(rank), on_device(rank)));
    }
    run_ranks_of(
        ranks, [&](Runtime& runtime) { body(runtime, devices_[runtime.topology().rank]->device()); },
        [&](Rank rank) {
          RuntimeComponents components = memory_components(network, rank, ranks, config);
          add_nccl(components, add_cuda(components, devices_[rank]),
                   [this]() -> const NcclLibrary& { return nccl_.library(); });
          return components;
        });
  }
  // Of all that was asked of NCCL on that rank.
  long count(Rank rank, const std::string& words) {
    const std::vector<std::string> calls = nccl_.take_calls(rank);
    return std::ranges::count_if(
        calls, [&](const std::string& call) { return call.find(words) != std::string::npos; });
  }

  FakeNccl nccl_;
  std::optional<MemoryNetwork> network_;  // of the last run
  std::vector<std::shared_ptr<FakeDevices>> devices_;
};

}  // namespace rueda
