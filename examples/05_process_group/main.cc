// SPDX-License-Identifier: Apache-2.0
// A LibTorch program that trains as DistributedDataParallel does, by c10d alone. Rueda is the backend of its
// group.
//
//   build/bin/ruedarun -np 2 build/bin/process_group
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include <rueda/torch/c10d/process_group.h>
#include <torch/torch.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

namespace {

// The value that torchrun or else ruedarun has set for this rank.
std::string variable(const char* of_torchrun, const char* of_ruedarun) {
  for (const char* name : {of_torchrun, of_ruedarun}) {
    if (const char* const value = std::getenv(name)) return value;
  }
  throw std::runtime_error(std::string(of_torchrun) + " is not set: start it by ruedarun");
}

c10::intrusive_ptr<c10d::ProcessGroup> make_group() {
  const int rank = std::stoi(variable("RANK", "RUEDA_RANK")),
            size = std::stoi(variable("WORLD_SIZE", "RUEDA_SIZE"));
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(std::stoi(variable("MASTER_PORT", "MASTER_PORT")));
  options.isServer = rank == 0;
  options.numWorkers = size;
  const auto store = c10::make_intrusive<c10d::TCPStore>(variable("MASTER_ADDR", "MASTER_ADDR"), options);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM,
                    rueda::process_group(store, rank, size));
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
  return group;
}

// Averages gradients in buckets while others are still computed.
std::unique_ptr<c10d::Reducer> make_reducer(const torch::nn::Module& model,
                                            const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  const std::vector<at::Tensor> parameters = model.parameters();
  const std::vector<std::size_t> sizes{c10d::kDefaultFirstBucketBytes, c10d::kDefaultBucketBytesCap};
  auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(parameters, sizes);
  std::unordered_map<std::size_t, std::string> names;
  for (const auto& each : model.named_parameters()) names.emplace(names.size(), each.key());
  return std::make_unique<c10d::Reducer>(parameters, std::vector(buckets.rbegin(), buckets.rend()), group,
                                         std::vector<bool>(parameters.size()), c10d::kDefaultBucketBytesCap,
                                         /*find_unused_parameters=*/false, /*gradient_as_bucket_view=*/false,
                                         names, c10d::kDefaultFirstBucketBytes,
                                         /*skip_all_reduce_unused_params=*/false,
                                         /*use_python_reducer=*/false, std::vector<std::int64_t>{});
}

}  // namespace

int main() try {
  const auto group = make_group();
  torch::manual_seed(1);  // all ranks begin with the same parameters
  auto model = torch::nn::Linear(8, 1);
  const auto reducer = make_reducer(*model, group);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  torch::manual_seed(group->getRank());  // each rank has its own data
  double loss_of_step = 0;
  for (int step = 0; step < 100; ++step) {
    const auto input = torch::randn({32, 8});
    const auto target = input.sum(1, true) + 0.1 * torch::randn({32, 1});  // the function to learn
    optimizer.zero_grad();
    reducer->prepare_for_forward();
    auto loss = torch::mse_loss(model->forward(input), target);
    reducer->prepare_for_backward({loss});
    loss.backward();
    optimizer.step();
    loss_of_step = loss.item<double>();
  }
  std::printf("rank %d of %d: loss %.6f, sum of the weights %.6f\n", group->getRank(), group->getSize(),
              loss_of_step, model->weight.sum().item<double>());
  group->shutdown();
} catch (const c10::Error& error) {
  std::fprintf(stderr, "error: %s\n", error.what_without_backtrace());
  return 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
