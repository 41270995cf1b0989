// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/staged_backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "core/engine/submissions/submission.h"
#include "tests/support/training/device_ones.h"

namespace rueda {
namespace {

// Purpose: shows the test what it was given, and is over when the test says so.
class Below final : public Backend {
 public:
  explicit Below(bool flows) : flows_(flows) {}
  std::string_view name() const override { return "below"; }
  bool can_run(const Plan&) const override { return true; }
  bool flows(const Plan&) const override { return flows_; }
  std::unique_ptr<Work> start(const Plan&, std::span<Entry> entries) override {
    entries_ = entries;
    return std::make_unique<BelowWork>(*this);
  }
  bool rings_doorbell() const override { return false; }

  bool stepped() const { return stepped_; }
  StreamingProgress* flow() const { return entries_.front().flow; }
  std::span<float> values() const {
    const TensorView& output = entries_.front().submission().output;
    return {static_cast<float*>(output.data), static_cast<std::size_t>(output.elements())};
  }
  bool over = false;

 private:
  struct BelowWork final : Work {
    explicit BelowWork(Below& below) : below(below) {}
    Step step() override {
      below.stepped_ = true;
      return below.over ? Step::done : Step::waiting;
    }
    void abandon() override {}
    std::string_view phase() const override { return "as the test wants"; }
    PlanRoute route() const override { return {.between = "below"}; }
    Below& below;
  };
  bool flows_;
  bool stepped_ = false;
  std::span<Entry> entries_;
};

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kElements = 3 * kMiB / sizeof(float) + 5;

// Purpose: one Plan of ones on a device.
class StagedBackendTest : public testing::Test {
 protected:
  void begin(bool flows) {
    below_.emplace(flows);
    staged_.emplace(*below_, std::make_shared<DeviceSides>(devices_), 0);
    Submission submission = ones_.sum("t");
    submission.ready = device_.record(submission.stream);
    entries_.emplace_back(std::make_shared<HandleState>(nullptr, std::move(submission)));
    PlanTensor& tensor = plan_.tensors.emplace_back();
    tensor.request = entries_.front().shared_request;
    plan_.device = DeviceKind::cuda;
    assign_offset(plan_, tensor);
    work_ = staged_->start(plan_, entries_);
    while (!below_->stepped()) work_->step();
  }
  void end() {
    below_->over = true;
    while (work_->step() != Work::Step::done) {}
    EXPECT_EQ(work_->route().between, "below");
    EXPECT_TRUE(work_->route().ends_on_device) << "the copy back may be under way";
    work_.reset();
    device_.finish();
  }
  long count(float value) const { return std::count(ones_.values(), ones_.values() + kElements, value); }

  std::shared_ptr<FakeDevices> devices_ = std::make_shared<FakeDevices>(1);
  FakeDevice& device_ = devices_->device();
  DeviceOnes ones_{device_, kElements};
  std::optional<Below> below_;
  std::optional<StagedBackend> staged_;
  Plan plan_;
  std::vector<Entry> entries_;
  std::unique_ptr<Work> work_;
};

TEST_F(StagedBackendTest, AWorkThatNeedsAllOfItBeginsWhenAllIsThere) {
  begin(false);
  EXPECT_EQ(below_->flow(), nullptr);
  EXPECT_EQ(std::ranges::count(below_->values(), 1.0f), static_cast<long>(kElements));
  std::ranges::fill(below_->values(), 2.0f);
  end();
  EXPECT_EQ(count(2.0f), static_cast<long>(kElements));
}

TEST_F(StagedBackendTest, AWorkThatFlowsBeginsWithTheFirstPieceAndResultsGoBackMeanwhile) {
  begin(true);
  StreamingProgress* const flow = below_->flow();
  ASSERT_NE(flow, nullptr);
  while (!flow->arrived(kMiB)) {}
  EXPECT_FALSE(flow->arrived(kElements * sizeof(float)));
  const auto first = below_->values().first(kMiB / sizeof(float));
  EXPECT_EQ(std::ranges::count(first, 1.0f), static_cast<long>(first.size()));
  while (!flow->arrived(kElements * sizeof(float))) {}

  std::ranges::fill(below_->values(), 2.0f);
  flow->finished(kMiB);
  device_.finish();
  EXPECT_EQ(count(2.0f), static_cast<long>(first.size()));
  flow->finished(kMiB + 64);  // too little to be worth a copy
  device_.finish();
  EXPECT_EQ(count(2.0f), static_cast<long>(first.size()));
  end();
  EXPECT_EQ(count(2.0f), static_cast<long>(kElements));
}

// What is still on its way to the tensor when the Work is undone keeps its memory.
TEST_F(StagedBackendTest, MemoryComesBackBehindTheLastCopy) {
  begin(true);
  while (!below_->flow()->arrived(kElements * sizeof(float))) {}
  std::ranges::fill(below_->values(), 2.0f);
  below_->flow()->finished(2 * kMiB);
  const auto fence = entries_.front().handle->fence;
  work_.reset();
  EXPECT_FALSE(fence->passed());
  device_.finish();
  EXPECT_TRUE(fence->passed());
  EXPECT_EQ(count(2.0f), static_cast<long>(2 * kMiB / sizeof(float)));
}

}  // namespace
}  // namespace rueda
