// SPDX-License-Identifier: Apache-2.0
// Training by c10d's Reducer, as DistributedDataParallel does it, with parameters on devices.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/support/worlds/group_world.h"

namespace rueda {
namespace {

using Leaves = std::vector<at::Tensor>;

// A bucket for each parameter, the last one first.
std::unique_ptr<c10d::Reducer> reducer_of(const Leaves& leaves,
                                          const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  std::vector<std::vector<std::size_t>> buckets;
  std::unordered_map<std::size_t, std::string> names;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    buckets.insert(buckets.begin(), {i});
    names.emplace(i, std::to_string(i));
  }
  return std::make_unique<c10d::Reducer>(leaves, buckets, group, std::vector<bool>(leaves.size()), 1,
                                         /*find_unused_parameters=*/false, /*gradient_as_bucket_view=*/false,
                                         names, 1, /*skip_all_reduce_unused_params=*/false,
                                         /*use_python_reducer=*/false, std::vector<std::int64_t>{});
}

Leaves trained(ProcessGroup& backend, at::Device device) {
  const auto group = c10::make_intrusive<c10d::ProcessGroup>(c10::make_intrusive<c10d::HashStore>(),
                                                             backend.getRank(), backend.getSize());
  group->setBackend(device.type(), c10d::ProcessGroup::BackendType::CUSTOM,
                    c10::intrusive_ptr<c10d::Backend>::reclaim_copy(&backend));
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
  Leaves leaves = leaves_on(Regression(), device);
  const auto reducer = reducer_of(leaves, group);
  torch::optim::SGD optimizer(leaves, torch::optim::SGDOptions(0.5).momentum(0.9));
  for (int step = 0; step < 5; ++step) {
    const Batch batch = to_device(make_batch((step * 2L + backend.getRank()) * 4, 4), device);
    optimizer.zero_grad();
    reducer->prepare_for_forward();
    const at::Tensor loss = loss_of(leaves, batch);
    reducer->prepare_for_backward({loss});
    loss.backward();
    optimizer.step();
  }
  return leaves;
}

class GroupTrainingOnDevices : public GroupWorld {
 protected:
  static GroupBody compare() {
    return [](ProcessGroup& group, const FakeTorchDevice& device) {
      expect_near(trained(group, device.name()), trained(group, at::kCPU));
    };
  }
};

TEST_F(GroupTrainingOnDevices, EqualsThatOnTheHost) { run_group(2, compare()); }
TEST_F(GroupTrainingOnDevices, EqualsItByWayOfTheHost) { run_group_by_the_host(2, compare()); }

}  // namespace
}  // namespace rueda
