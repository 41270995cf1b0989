// SPDX-License-Identifier: Apache-2.0
// The trainers on a device, a fake one: LibTorch's operators for CUDA run on the host. Compared with the CPU.
#include <ATen/Context.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include <rueda/torch.h>
#include "core/default_runtime.h"
#include "examples/lib/data/files/json_file.h"
#include "examples/lib/training/autocast.h"
#include "examples/lib/training/run_training.h"
#include "examples/lib/training/tasks/distill_task.h"
#include "examples/lib/training/tasks/lm_evaluation_run.h"
#include "examples/lib/training/tasks/mlm_task.h"
#include "examples/lib/training/tasks/nq_task.h"
#include "examples/lib/training/tasks/squad_task.h"
#include "examples/lib/training/trainer.h"
#include "ops/cuda/cuda_components.h"
#include "tests/fakes/torch/fake_torch_devices.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda::examples {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Words = std::vector<std::string>;

template <class Options>
Options options_of(std::optional<Options> (*parse)(int, const char* const*), const Words& flags) {
  std::vector<const char*> words{"program"};
  for (const std::string& flag : flags) words.push_back(flag.c_str());
  return *parse(static_cast<int>(words.size()), words.data());
}

// Purpose: jobs of one rank, one after another, whose host has eight devices, of which cuda:0 can be used.
class TrainerOnDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (!FakeTorchDevice::possible()) GTEST_SKIP() << "torch has CUDA in this process";
    at::globalContext().setSDPUseFlash(false);  // of which each kind of device has an operator of its own
  }
  void TearDown() override { shutdown(); }

  void start() {
    shutdown();
    RuntimeComponents components = memory_components(network_, 0, 1, {});
    add_cuda(components, devices_);
    init(std::move(components));
  }
  std::filesystem::path folder(const std::string& name) const { return scratch_.path() / name; }

  static std::unique_ptr<Task> make_task(const BertOptions& options) {
    if (options.task == "nq") return std::make_unique<NqTask>(options);
    if (options.task == "mlm") return std::make_unique<MlmTask>(options);
    return std::make_unique<SquadTask>(options);
  }
  static BertOptions bert_options(Words more) {
    Words flags{"--batch", "2", "--max-length", "32", "--eval-first", "no", "--steps", "4", "--warmup", "2"};
    flags.insert(flags.end(), more.begin(), more.end());
    return options_of(parse_bert_options, flags);
  }
  // A run as train_bert makes it; its summary.
  nlohmann::json train(const std::string& output, Words more) {
    more.insert(more.end(), {"--output", folder(output).string()});
    const BertOptions options = bert_options(more);
    const std::unique_ptr<Task> task = make_task(options);
    start();
    run_training(*task, options);
    return read_json(options.summary);
  }
  static void expect_same(const nlohmann::json& one, const nlohmann::json& other) {
    for (const char* key : {"loss_first", "loss_last", "loss_held_out"})
      EXPECT_NEAR(one.at(key).get<double>(), other.at(key).get<double>(), 1e-4) << key;
  }

  const ScratchFolder scratch_;
  MemoryNetwork network_{1};
  const std::shared_ptr<FakeDevices> devices_ = std::make_shared<FakeDevices>(0);
  const FakeTorchDevice device_{0, devices_->device()};
};

class TrainerOnDeviceTasks : public TrainerOnDevice, public testing::WithParamInterface<Words> {};

TEST_P(TrainerOnDeviceTasks, LearnAndMeasureAsOnTheCpu) {
  Words flags = GetParam();
  const nlohmann::json on_cpu = train("cpu", flags);
  EXPECT_EQ(on_cpu.at("device"), "cpu");
  flags.insert(flags.end(), {"--device", "cuda"});
  const nlohmann::json on_device = train("cuda", flags);
  EXPECT_EQ(on_device.at("device"), "cuda");
  EXPECT_EQ(on_device.at("curve").size(), 4);
  expect_same(on_cpu, on_device);
}

INSTANTIATE_TEST_SUITE_P(All, TrainerOnDeviceTasks,
                         testing::Values(Words{"--task", "squad", "--stride", "8"},
                                         Words{"--task", "nq", "--stride", "8", "--cache", "none"},
                                         Words{"--task", "mlm", "--cache", "none"},
                                         Words{"--stride", "8", "--optimizer", "lamb", "--autocast", "bf16"},
                                         Words{"--stride", "8", "--optimizer", "radam", "--clip", "0",
                                               "--backward-passes-per-step", "2"},
                                         Words{"--stride", "8", "--optimizer", "lars", "--sync", "never"}),
                         [](const auto& info) {
                           std::string name = std::to_string(info.index);
                           return name + (info.param[0] == "--task" ? info.param[1] : info.param[3]);
                         });

TEST_F(TrainerOnDevice, ARunGoesOnOnAnotherKindOfDevice) {
  const Words flags{"--stride", "8", "--checkpoint-every", "2"};
  const auto on = [&](const char* device) {
    Words more = flags;
    more.insert(more.end(), {"--device", device});
    return more;
  };
  const nlohmann::json whole = train("cpu", on("cpu"));
  train("cuda", on("cuda"));
  for (const std::string from : {"cpu", "cuda"}) {
    const std::string to = from == "cpu" ? "cuda" : "cpu";
    Words more = on(to.c_str());
    more.insert(more.end(), {"--resume", (folder(from) / "checkpoints" / "step-2").string()});
    const nlohmann::json resumed = train("from_" + from, more);
    EXPECT_EQ(resumed.at("resumed_from"), 2) << from;
    EXPECT_EQ(resumed.at("device"), to);
    expect_same(resumed, whole);
  }
}

// Purpose: remembers how often the host had waited for the device when each step was over.
class WaitCounter : public TrainingListener {
 public:
  explicit WaitCounter(const FakeTorchDevice& device) : device_(device) {}
  void step_done(const StepReport& report) override {
    steps.push_back(report.step);
    waits.push_back(device_.host_waits());
  }
  void evaluation_due(std::int64_t) override {}
  void checkpoint_due(const TrainingPosition& position, StepOptimizer&, bool) override {
    checkpoints.push_back(position.step);
  }

  std::vector<std::int64_t> steps;
  std::vector<long> waits;
  std::vector<std::int64_t> checkpoints;

 private:
  const FakeTorchDevice& device_;
};

TEST_F(TrainerOnDevice, TheHostDoesNotWaitInAStep) {
  const auto waits_of = [&](Task& task, const TrainOptions& options) {
    start();
    task.move_to(device_.name());
    KeptTraining kept(task, options);
    Trainer trainer(task, options, kept, nullptr);
    WaitCounter counter(device_);
    trainer.run(counter);
    EXPECT_THAT(counter.steps, testing::ElementsAre(0, 1, 2, 3));
    EXPECT_EQ(counter.waits[3] - counter.waits[2], 1)
        << "for the last step, when there is nothing else to do";
    return counter.waits[2] - counter.waits[0];
  };
  for (const Words& flags :
       {Words{"--stride", "8"}, Words{"--task", "nq", "--stride", "8", "--cache", "none"},
        Words{"--task", "mlm", "--cache", "none"}}) {
    const BertOptions options = bert_options(flags);
    EXPECT_EQ(waits_of(*make_task(options), options), 0) << flags[1];
  }
  const BertOptions teacher = bert_options({"--task", "mlm", "--cache", "none"});
  MlmTask(teacher).save(folder("teacher"));
  for (const char* compared : {"all", "masked"}) {
    const auto options = options_of(parse_distill_options,
                                    {"--teacher", folder("teacher").string(), "--steps", "4", "--batch", "2",
                                     "--max-length", "32", "--cache", "none", "--compare", compared});
    DistillTask task(options, read_teacher(options));
    EXPECT_EQ(waits_of(task, options), 0) << compared;
  }
}

// Purpose: the loss is a weight times the sample, of which one is infinite.
class OneBadSample : public Task {
 public:
  explicit OneBadSample(std::uint64_t position) : bad_(position) {}
  std::vector<std::string> settings() const override { return {}; }
  std::vector<std::string> words() const override { return {}; }
  std::size_t samples() const override { return 4; }
  TaskBatch make_batch(std::span<const Sample> chosen) const override {
    const float value = chosen.front().position == bad_ ? std::numeric_limits<float>::infinity() : 0.5F;
    return {{{"x", at::tensor({value}).view({1, 1})}}};
  }
  torch::nn::Module& model() override { return *linear_; }
  TaskLoss losses(const TaskBatch& batch) override { return {.total = linear_->forward(batch["x"]).sum()}; }
  std::vector<std::string> metric_names() const override { return {}; }
  std::vector<Metric> evaluate() override { return {}; }
  void save(const std::filesystem::path&) const override {}
  void load(const std::filesystem::path&) override {}

 private:
  const std::uint64_t bad_;
  torch::nn::Linear linear_ = torch::nn::Linear(1, 1);
};

struct Divergence {
  const char* device;
  int step;  // of 6, with checkpoints after the 3rd and 6th; from 1
  double clip;
  const char* words;
  friend void PrintTo(const Divergence& given, std::ostream* stream) {
    *stream << given.device << given.step;
  }
};

class TrainerDiverges : public TrainerOnDevice, public testing::WithParamInterface<Divergence> {};

TEST_P(TrainerDiverges, AndSavesNothingOfIt) {
  const Divergence given = GetParam();
  start();
  TrainOptions options;
  options.steps = 6;
  options.batch = 1;
  options.clip = given.clip;
  options.checkpoint_every = 3;
  OneBadSample task(static_cast<std::uint64_t>(given.step - 1));
  task.move_to(at::Device(given.device));
  StopRequest stop(folder("stop"));
  WaitCounter listener(device_);
  KeptTraining kept(task, options);
  Trainer trainer(task, options, kept, &stop);
  EXPECT_THAT([&] { trainer.run(listener); }, ThrowsMessage<std::runtime_error>(HasSubstr(given.words)));
  EXPECT_EQ(listener.checkpoints,
            given.step > 3 ? std::vector<std::int64_t>{3} : std::vector<std::int64_t>());
}

constexpr const char* kNorm = "the gradient norm is not finite";
INSTANTIATE_TEST_SUITE_P(
    All, TrainerDiverges,
    testing::Values(Divergence{"cpu", 2, 0, "loss of step 2"}, Divergence{"cuda", 2, 0, "loss of step 2"},
                    Divergence{"cuda", 3, 0, "loss of step 3"}, Divergence{"cuda", 4, 0, "loss of step 4"},
                    Divergence{"cpu", 6, 0, "loss of step 6"}, Divergence{"cuda", 6, 0, "loss of step 6"},
                    Divergence{"cpu", 3, 1, kNorm}, Divergence{"cuda", 2, 1, kNorm},
                    Divergence{"cuda", 3, 1, kNorm}, Divergence{"cuda", 6, 1, kNorm}),
    [](const auto& info) {
      return std::string(info.param.device) + std::to_string(info.param.step) +
             (info.param.clip > 0 ? "norm" : "");
    });

TEST_F(TrainerOnDevice, PerplexityIsThatOfTheCpu) {
  const auto evaluated = [&](const std::string& device) {
    const auto options =
        options_of(parse_evaluate_lm_options, {"--device", device, "--subset", "0.05", "--max-length", "32",
                                               "--cache", "none", "--output", folder(device).string()});
    start();
    run_lm_evaluation(options);
    return read_json(options.summary);
  };
  const nlohmann::json on_cpu = evaluated("cpu"), on_device = evaluated("cuda:0");
  EXPECT_EQ(on_device.at("device"), "cuda");
  for (const char* key : {"loss", "perplexity", "pseudo_perplexity"})
    EXPECT_NEAR(on_cpu.at(key).get<double>(), on_device.at(key).get<double>(), 1e-3) << key;
}

TEST_F(TrainerOnDevice, AutocastIsOfOneTypeOfDevice) {
  const at::Tensor here = at::ones({2, 2}), there = at::ones({2, 2}, device_.name());
  const AutocastScope autocast(Autocast::bf16, at::kCUDA);
  EXPECT_EQ(at::linear(there, there).scalar_type(), at::kBFloat16);
  EXPECT_EQ(at::linear(here, here).scalar_type(), at::kFloat);
}

TEST_F(TrainerOnDevice, TheChoiceOfADevice) {
  using Kind = DeviceChoice::Kind;
  start();
  EXPECT_EQ(agree_on_device({}), at::Device(at::kCPU));
  EXPECT_EQ(agree_on_device({.kind = Kind::cuda}), at::Device(at::kCUDA, 0));
  EXPECT_EQ(agree_on_device({.kind = Kind::automatic}), at::Device(at::kCUDA, 0));
  EXPECT_EQ(agree_on_device({.kind = Kind::cuda, .number = 7}), at::Device(at::kCUDA, 7));
  EXPECT_THAT([] { prepare_device({.kind = Kind::cuda, .number = 8}); },
              ThrowsMessage<UsageError>(HasSubstr("--device cuda:8: CUDA cannot be used: of 8 devices")));
  // What torch has is of no use where Rueda does not know of devices.
  shutdown();
  init(memory_components(network_, 0, 1, {}));
  EXPECT_EQ(agree_on_device({.kind = Kind::automatic}), at::Device(at::kCPU));
  EXPECT_THAT([] { agree_on_device({.kind = Kind::cuda}); },
              ThrowsMessage<UsageError>(HasSubstr("--device cuda: CUDA cannot be used: rank 0: ")));
}

TEST(DeviceOfARank, IsThatOfItsLocalRank) {
  EXPECT_EQ(device_number({}, 0, 2), 0);
  EXPECT_EQ(device_number({}, 1, 2), 1);
  EXPECT_EQ(device_number({}, 5, 2), 1);
  EXPECT_EQ(device_number({.number = 3}, 1, 4), 3);
}

}  // namespace
}  // namespace rueda::examples
