// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/elastic/kept.h"

#include <cstdint>

#include "frameworks/torch/elastic/bytes_part.h"
#include "frameworks/torch/elastic/module_part.h"
#include "frameworks/torch/elastic/optimizer_part.h"
#include "frameworks/torch/elastic/sharded_part.h"
#include "frameworks/torch/elastic/tensor_part.h"

namespace rueda::elastic {
namespace {

// LRScheduler shows its number of steps to derived classes only.
class SchedulerSteps : public torch::optim::LRScheduler {
 public:
  static unsigned& of(torch::optim::LRScheduler& scheduler) {
    return scheduler.*(&SchedulerSteps::step_count_);
  }
};

std::string bytes_of_position(const Sampler::Position& position) {
  return {reinterpret_cast<const char*>(&position), sizeof position};
}

void move_to(Sampler& sampler, const std::string& bytes) {
  Sampler::Position position;
  std::memcpy(&position, bytes.data(), sizeof position);
  sampler.go_to(position);
}

}  // namespace

Kept::Kept(torch::nn::Module& module) : Kept(std::make_shared<ModulePart>(module)) {}

Kept::Kept(torch::optim::Optimizer& optimizer) {
  if (auto* const divided = dynamic_cast<DividedOptimizer*>(&optimizer); divided != nullptr)
    part_ = std::make_shared<ShardedPart>(optimizer, *divided);
  else
    part_ = std::make_shared<OptimizerPart>(optimizer);
}

Kept::Kept(torch::optim::LRScheduler& scheduler) : Kept(SchedulerSteps::of(scheduler)) {}

Kept::Kept(Sampler& sampler)
    : Kept(std::make_shared<BytesPart>(
          "a sampler", [&sampler] { return bytes_of_position(sampler.position()); },
          [&sampler](const std::string& bytes) { move_to(sampler, bytes); },
          [&sampler] { sampler.reset(); })) {}

Kept::Kept(at::Tensor& tensor) : Kept(std::make_shared<TensorPart>(tensor)) {}

Kept::Kept(std::string& text)
    : Kept(bytes_part(
          "a text", [&text] { return text; }, [&text](const std::string& bytes) { text = bytes; })) {}

std::shared_ptr<Part> bytes_part(std::string kind, std::function<std::string()> read,
                                 std::function<void(const std::string&)> write) {
  return std::make_shared<BytesPart>(std::move(kind), std::move(read), std::move(write));
}

}  // namespace rueda::elastic
