// SPDX-License-Identifier: Apache-2.0
// Gradients with places in windows of devices: the ranks are threads, their devices and NCCL fakes, and
// LibTorch's operators for CUDA run on the host.
#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <gmock/gmock.h>
#include <torch/optim/sgd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "frameworks/torch/capture.h"
#include "frameworks/torch/distributed_optimizer.h"
#include "tests/support/torch_device_world.h"

namespace rueda {
namespace {

using ::testing::HasSubstr;
using Sgd = DistributedOptimizer<torch::optim::SGD>;

// Purpose: parameters of float32 whose gradients are this rank's number, from 1 on, times another factor for
// each. They come in the reverse order.
struct Training {
  Training(Runtime& runtime, at::Device device, const std::vector<std::vector<std::int64_t>>& shapes,
           DistributedOptions options = {})
      : mine(static_cast<double>(runtime.topology().rank) + 1.0) {
    for (const auto& shape : shapes)
      leaves.push_back(at::ones(shape, at::TensorOptions(at::kFloat).device(device)).requires_grad_());
    if (options.groups.empty() && options.low_rank.rank == 0) options.groups = {leaves};  // so one Plan
    optimizer.emplace(leaves, torch::optim::SGDOptions(0.0), options, runtime);
  }

  at::Tensor loss() const {
    at::Tensor loss = (leaves[0] * mine).sum();
    for (std::size_t i = 1; i < leaves.size(); ++i)
      loss = loss + (leaves[i] * (mine * (static_cast<double>(i) + 1.0))).sum();
    return loss;
  }
  void step(bool set_to_none = true) {
    optimizer->zero_grad(set_to_none);
    loss().backward();
    optimizer->step();
  }
  at::Tensor grad(std::size_t i) const { return leaves[i].grad(); }
  std::vector<const void*> places() const {
    std::vector<const void*> places;
    for (const at::Tensor& leaf : leaves) places.push_back(leaf.grad().const_data_ptr());
    return places;
  }
  // Of two ranks: 1.5 times the factor of each.
  void expect_means(double mean = 1.5) const {
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const at::Tensor grad = leaves[i].grad().cpu();
      EXPECT_TRUE(at::equal(grad, at::full_like(grad, mean * (static_cast<double>(i) + 1.0)))) << i << grad;
    }
  }

  const double mine;
  std::vector<at::Tensor> leaves;
  std::optional<Sgd> optimizer;
};

class TorchDeviceWindow : public TorchDeviceWorld {
 protected:
  // Blocks of NCCL's that there are, seen from any rank at the same time.
  static void expect_at_all(Runtime& runtime, const std::function<void()>& look) {
    barrier_async(runtime).wait();
    if (runtime.topology().rank == 0) look();
    barrier_async(runtime).wait();
  }
};

// They lie in the order in which they come, and are one call of NCCL's, in place; step 1 has packed them.
TEST_F(TorchDeviceWindow, FromTheSecondStepOnNothingIsPacked) {
  run_torch(2, [&](Runtime& runtime, const FakeTorchDevice& device) {
    Training training(runtime, device.name(), {{3}, {10}, {16}});
    FakeDevice& fake = devices_[runtime.topology().rank]->device();
    training.step();
    training.expect_means();
    const std::size_t packed = fake.batches();
    const long waits = device.host_waits();
    std::vector<const void*> places;
    for (int step = 1; step < 5; ++step) {
      const long copies = device.copies();
      training.step();
      EXPECT_EQ(device.copies() - copies, 3) << "each to its place";
      if (step == 1) places = training.places();
      EXPECT_EQ(training.places(), places);
    }
    EXPECT_EQ(device.host_waits(), waits);
    EXPECT_EQ(fake.batches(), packed) << "neither packed nor unpacked";
    EXPECT_LT(places[2], places[1]);
    EXPECT_LT(places[1], places[0]);
    training.expect_means();
  });
  const std::vector<std::string> calls = nccl_.take_calls(0);
  EXPECT_EQ(std::ranges::count(calls, "ncclAllReduce(48 float32 avg)"), 1) << testing::PrintToString(calls);
  EXPECT_EQ(std::ranges::count(calls, "ncclAllReduce(35 float32 avg)"), 4);
}

TEST_F(TorchDeviceWindow, WhatIsInItsPlaceIsNotCopied) {
  for (const int passes : {1, 3}) {
    run_torch(2, [&](Runtime& runtime, const FakeTorchDevice& device) {
      DistributedOptions options;
      options.backward_passes_per_step = passes;
      Training training(runtime, device.name(), {{3}, {10}}, options);
      FakeDevice& fake = devices_[runtime.topology().rank]->device();
      std::size_t packed = 0;
      long copies = 0;
      for (int step = 0; step < 5; ++step) {
        training.optimizer->zero_grad(false);
        for (int pass = 0; pass < passes; ++pass) training.loss().backward();
        training.optimizer->step();
        training.expect_means();
        if (step < 2) {  // in step 1 ordinary gradients, in step 2 moved to their places
          packed = fake.batches();
          copies = device.copies();
        }
      }
      EXPECT_EQ(fake.batches(), packed);
      EXPECT_EQ(device.copies(), copies);
    });
  }
}

// The mean over fewer passes than usual is made by the copy.
TEST_F(TorchDeviceWindow, AFactorIsAppliedOnTheWay) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    DistributedOptions options;
    options.backward_passes_per_step = 2;
    Training training(runtime, device.name(), {{3}, {10}}, options);
    for (int step = 0; step < 4; ++step) {
      const long copies = device.copies();
      training.step();
      EXPECT_EQ(device.copies(), copies) << "it is one pass over each";
      training.expect_means();
    }
  });
}

TEST_F(TorchDeviceWindow, LeavesAGradientThatSomebodyKeeps) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    Training training(runtime, device.name(), {{3}, {10}});
    for (int step = 0; step < 2; ++step) training.step();
    const std::vector<const void*> places = training.places();
    const bool keeps = runtime.topology().rank == 1;
    at::Tensor kept = keeps ? training.grad(0) : at::Tensor();
    at::Tensor part = keeps ? training.grad(1).detach().narrow(0, 3, 2) : at::Tensor();
    if (keeps) {
      kept.fill_(7);
      part.fill_(8);
    }
    for (int step = 0; step < 3; ++step) {
      training.step();
      training.expect_means();
      EXPECT_EQ(training.places() != places, keeps);
      if (!keeps) continue;
      EXPECT_EQ(kept.cpu().sum().item<float>(), 21.0f);
      EXPECT_EQ(part.cpu().sum().item<float>(), 16.0f);
    }
    kept.reset();
    part.reset();
    training.step();
    training.expect_means();
    EXPECT_EQ(training.places(), places);
  });
}

// What the stream of the step still reads of a place comes before what is put there next.
TEST_F(TorchDeviceWindow, APlaceIsUsedAgainBehindItsReaders) {
  run_torch(2, [&](Runtime& runtime, const FakeTorchDevice& device) {
    Training training(runtime, device.name(), {{3}, {10}});
    FakeDevice& fake = devices_[runtime.topology().rank]->device();
    for (int step = 0; step < 2; ++step) training.step();
    const std::vector<const void*> places = training.places();
    training.optimizer->zero_grad();
    training.loss().backward();
    std::atomic<float> seen = 0;
    const auto gate = std::make_shared<FakeDevice::Point>();
    {
      const c10::StreamGuard there(device.stream(2));
      training.optimizer->step();
      fake.wait(device.stream(2).native_handle(), gate);
      fake.give(
          device.stream(2).native_handle(),
          [&, values = FakeDevice::real(training.grad(0).const_data_ptr<float>())] { seen = values[2]; });
    }
    training.optimizer->zero_grad();
    const std::jthread opens([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      gate->passed = true;
    });
    (training.loss() * 8).backward();
    EXPECT_EQ(seen, 1.5f);
    training.optimizer->step();
    training.expect_means(12.0);
    EXPECT_EQ(training.places(), places);
  });
}

TEST_F(TorchDeviceWindow, FollowsAChangedType) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    Training training(runtime, device.name(), {{3}, {10}});
    for (int step = 0; step < 2; ++step) training.step();
    for (at::Tensor& leaf : training.leaves) {
      leaf.mutable_grad().reset();
      leaf.set_data(leaf.detach().to(at::kDouble));
    }
    std::vector<const void*> places;
    for (int step = 0; step < 4; ++step) {
      training.step();
      training.expect_means();
      if (step == 1) places = training.places();
      if (step > 1) {
        EXPECT_EQ(training.places(), places);
      }
    }
  });
  EXPECT_EQ(count(0, "ncclCommWindowRegister"), 2);
}

TEST_F(TorchDeviceWindow, TiedSparseAndMissingGradientsHavePlaces) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    const auto leaf = [&](at::IntArrayRef sizes) {
      return at::ones(sizes, at::TensorOptions(at::kDouble).device(device.name())).requires_grad_();
    };
    const at::Tensor table = leaf({5, 2}), tied = leaf({3}), rare = leaf({4}),
                     turned = leaf({2, 3}).detach().t().requires_grad_();
    Sgd optimizer({table, tied, rare, turned}, torch::optim::SGDOptions(0.0), {}, runtime);
    const at::Tensor rows = at::tensor({1, 3}).to(device.name());
    std::vector<const void*> places;
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      at::Tensor loss = at::embedding(table, rows, -1, false, true).sum() + (tied * tied).sum() + tied.sum();
      if (step % 2 == 0 && runtime.topology().rank == 0) loss = loss + rare.sum() + (turned * 2).sum();
      loss.backward();
      optimizer.step();
      EXPECT_EQ(table.grad().cpu().sum().item<double>(), 4.0);
      EXPECT_EQ(tied.grad().cpu().sum().item<double>(), 9.0);
      if (step % 2 == 0) {
        EXPECT_EQ(rare.grad().cpu().sum().item<double>(), 2.0);
        EXPECT_EQ(turned.grad().cpu().sum().item<double>(), 6.0);
      }
      const std::vector<const void*> now{table.grad().const_data_ptr(), tied.grad().const_data_ptr()};
      if (step == 1) places = now;
      if (step > 1) {
        EXPECT_EQ(now, places);
      }
    }
  });
}

TEST_F(TorchDeviceWindow, FactorsHaveNone) {
  run_torch(2, [&](Runtime& runtime, const FakeTorchDevice& device) {
    DistributedOptions options;
    options.low_rank.rank = 1;
    Training training(runtime, device.name(), {{20, 30}, {10}}, options);
    std::vector<const void*> places;
    for (int step = 0; step < 4; ++step) {
      training.step();
      EXPECT_NEAR(training.grad(0).cpu().mean().item<double>(), 1.5, 1e-5);
      EXPECT_EQ(training.grad(1).cpu()[9].item<double>(), 3.0);
      if (step == 1) places = training.places();
    }
    EXPECT_EQ(training.places()[1], places[1]);
  });
  EXPECT_EQ(count(1, "ncclCommWindowRegister(64 1)"), 1) << "the other alone";
}

// What NCCL does not carry out, it does not work on in a window.
TEST_F(TorchDeviceWindow, ThereIsNoneWhereTheHostReduces) {
  const auto train = [this](Runtime& runtime, const FakeTorchDevice& device, DistributedOptions options) {
    Training training(runtime, device.name(), {{4}, {16}}, std::move(options));
    for (int step = 0; step < 3; ++step) training.step();
    training.expect_means();
    expect_at_all(runtime, [this] { EXPECT_EQ(nccl_.blocks(), 0u); });
  };
  run_torch_by_the_host(2,
                        [&](Runtime& runtime, const FakeTorchDevice& device) { train(runtime, device, {}); });
  devices_.clear();
  run_torch(2, [&](Runtime& runtime, const FakeTorchDevice& device) {
    DistributedOptions fixed, thin;
    fixed.reduction_order = ReductionOrder::fixed;
    thin.compression = Compression::topk;
    thin.compression_share = 1.0;
    train(runtime, device, fixed);
    train(runtime, device, thin);
  });
}

TEST_F(TorchDeviceWindow, ARankAloneHasNone) {
  run_torch(1, [this](Runtime& runtime, const FakeTorchDevice& device) {
    Training training(runtime, device.name(), {{4}});
    for (int step = 0; step < 3; ++step) training.step();
    training.expect_means(1.0);
    EXPECT_EQ(nccl_.blocks(), 0u);
  });
}

// It says so, and nobody waits for it.
TEST_F(TorchDeviceWindow, WhereOneRankHasNoMemoryAllGoOnWithout) {
  nccl_.forget_memory();
  testing::internal::CaptureStderr();
  run_torch(2, [this](Runtime& runtime, const FakeTorchDevice& device) {
    Training training(runtime, device.name(), {{3}, {1000}}, {});
    if (runtime.topology().rank == 1) devices_[1]->device().take_memory_from(4000);
    for (int step = 0; step < 3; ++step) {
      training.step();
      training.expect_means();
    }
  });
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      HasSubstr("rank 1: gradients are packed, not reduced in place, on all ranks. rank 1: there is no "
                "memory on device 1 for 4096 bytes"));
}

TEST_F(TorchDeviceWindow, WhatIsOnTheHostHasItsBlocks) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    const at::Tensor there =
        at::ones({10}, at::TensorOptions(at::kFloat).device(device.name())).requires_grad_();
    const at::Tensor here = at::ones({20}, at::kFloat).requires_grad_();
    DistributedOptions options;
    options.groups = {{here, there}};
    Sgd optimizer({here, there}, torch::optim::SGDOptions(0.0), options, runtime);
    const double mine = static_cast<double>(runtime.topology().rank) + 1.0;
    const void* place = nullptr;
    at::Tensor kept;
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      (there * mine).sum().backward({}, true);
      (here * mine).sum().backward();
      optimizer.step();
      EXPECT_TRUE(at::equal(here.grad(), at::full({20}, 1.5, at::kFloat)));
      EXPECT_EQ(there.grad().cpu()[9].item<double>(), 1.5);
      if (step == 1) place = there.grad().const_data_ptr();
      if (step == 2) kept = there.grad();  // the next one of a group with a tensor of the host's is elsewhere
      EXPECT_EQ(there.grad().const_data_ptr() == place, step == 1 || step == 2) << step;
    }
  });
}

// Windows of optimizers that are gone are given back when the next one is shared.
TEST_F(TorchDeviceWindow, OptimizersComeAndGo) {
  run_torch(2, [this](Runtime& runtime, const FakeTorchDevice& device) {
    for (int round = 0; round < 5; ++round) {
      Training training(runtime, device.name(), {{3}, {1000}});
      for (int step = 0; step < 3; ++step) training.step();
      training.expect_means();
      expect_at_all(runtime, [&] { EXPECT_LE(nccl_.blocks(), round == 0 ? 2u : 4u) << round; });
    }
  });
  EXPECT_EQ(nccl_.blocks(), 0u);
}

TEST_F(TorchDeviceWindow, TheRanksOfAProcessSetShareTheirs) {
  run_torch(3, [](Runtime& runtime, const FakeTorchDevice& device) {
    const ProcessSet set = add_process_set(RankSet(1, 3), runtime);
    if (runtime.topology().rank > 0) {
      const at::Tensor leaf = at::ones({100}, device.name()).requires_grad_();
      Sgd optimizer({leaf}, torch::optim::SGDOptions(0.0), {}, set);
      const void* place = nullptr;
      for (int step = 0; step < 4; ++step) {
        optimizer.zero_grad();
        (leaf * static_cast<double>(runtime.topology().rank)).sum().backward();
        optimizer.step();
        EXPECT_EQ(leaf.grad().cpu()[99].item<double>(), 1.5);
        if (step == 1) place = leaf.grad().const_data_ptr();
        EXPECT_EQ(leaf.grad().const_data_ptr() == place, step > 0);
      }
    }
    barrier_async(runtime).wait();
  });
}

// Two steps are on their way at a time: each has places of its own.
TEST_F(TorchDeviceWindow, OneStepLateHasTwoBanks) {
  run_torch(2, [&](Runtime& runtime, const FakeTorchDevice& device) {
    DistributedOptions options;
    options.schedule = SyncSchedule::one_step_late();
    Training training(runtime, device.name(), {{3}, {10}}, options);
    FakeDevice& fake = devices_[runtime.topology().rank]->device();
    std::vector<const void*> even, odd;
    std::size_t packed = 0;
    for (int step = 0; step < 8; ++step) {
      training.step();
      if (step == 0) continue;  // nothing has landed
      training.expect_means();
      if (step == 5) even = training.places();
      if (step == 6) odd = training.places();
      if (step == 4) packed = fake.batches();
      if (step == 7) {
        EXPECT_EQ(training.places(), even);
      }
    }
    EXPECT_NE(even, odd);
    EXPECT_EQ(fake.batches(), packed);
    training.optimizer->flush();
  });
}

// A mixed-precision scaler divides gradients where they are.
TEST_F(TorchDeviceWindow, AScalerChangesThemInPlace) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    Training training(runtime, device.name(), {{3}, {10}});
    for (int step = 0; step < 4; ++step) {
      training.optimizer->zero_grad();
      (training.loss() * 8).backward();
      training.optimizer->synchronize();
      const std::vector<const void*> places = training.places();
      for (const at::Tensor& leaf : training.leaves) leaf.mutable_grad().mul_(0.125);
      EXPECT_EQ(training.places(), places);
      training.expect_means();
      training.optimizer->step();
      training.expect_means();
    }
  });
}

TEST_F(TorchDeviceWindow, WhoHasJoinedKeepsItsGradients) {
  run_torch(2, [](Runtime& runtime, const FakeTorchDevice& device) {
    Training training(runtime, device.name(), {{3}, {10}});
    for (int step = 0; step < 3; ++step) training.step();
    if (runtime.topology().rank == 0) {
      for (int step = 0; step < 2; ++step) training.step();
      training.expect_means(0.5);
    }
    join(runtime);
    if (runtime.topology().rank == 1) training.expect_means();
  });
}

// A graph knows no windows: what is captured is reduced where it is, in a place or not, and both go on.
TEST_F(TorchDeviceWindow, ACapturedStepGoesOnBesideOthers) {
  for (const bool set_to_none : {true, false}) {
    run_torch(2, [&](Runtime& runtime, const FakeTorchDevice& device) {
      FakeDevice& fake = devices_[runtime.topology().rank]->device();
      Training training(runtime, device.name(), {{3}, {10}});
      for (int step = 0; step < 3; ++step) training.step(set_to_none);
      const std::vector<const void*> places = training.places();
      const DeviceStream stream = device.stream(0).native_handle();
      FakeDevice::Graph graph;
      rueda::capture(
          [&] {
            fake.begin_capture(stream);
            training.step(set_to_none);
            graph = fake.end_capture(stream);
          },
          runtime);
      EXPECT_EQ(training.places() == places, !set_to_none);
      const std::vector<at::Tensor> captured{training.grad(0), training.grad(1)};
      for (int run = 0; run < 2; ++run) {
        for (std::size_t i = 0; i < 2; ++i) captured[i].detach().fill_(training.mine * 10.0);
        fake.run(graph, stream);
        for (int look = 0; look < 100000 && captured[1].cpu()[9].item<double>() != 15.0; ++look)
          fake.finish();
        EXPECT_EQ(captured[0].cpu()[2].item<double>(), 15.0);
        EXPECT_EQ(captured[1].cpu()[9].item<double>(), 15.0);
        training.step();  // `captured` is somebody's who keeps it
        training.expect_means();
        EXPECT_EQ(captured[0].cpu()[2].item<double>(), 15.0);
      }
    });
    devices_.clear();
  }
}

}  // namespace
}  // namespace rueda
