// SPDX-License-Identifier: Apache-2.0
// Tensors that lie in the windows of all: where another rank says that its own lie.
#include "ops/shm/in_place_tensors.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/engine/submissions/handle_state.h"
#include "ops/shm/memory/window.h"

namespace rueda {
namespace {

constexpr std::int64_t kElements = 1000;
constexpr std::uint64_t kBytes = kElements * sizeof(float);

// Ranks 0 and 3, and a tensor of rank 0's; both windows are of one size.
class OffersOfOthers : public testing::Test {
 protected:
  OffersOfOthers() {
    auto request = std::make_shared<const Request>(
        Request{"x", Operation::allreduce, DataType::float32, Shape{kElements}});
    assign_offset(plan_, plan_.tensors.emplace_back(0, true, request));
    peers_.members = {{0, nullptr, nullptr, &own_->file()}, {3, nullptr, nullptr, &other_->file()}};
    peers_.own_window = own_.get();
    Entry& entry = entries_.emplace_back(request, std::make_shared<HandleState>());
    entry.submission().output = {tensor_.get(), DataType::float32, {kElements}, {}};
  }

  // This rank's offer and `other`: where rank 3's tensor is then, or why it cannot be.
  std::string find(std::uint64_t other) {
    InlineVectors lists;
    InPlaceTensors tensors(plan_, entries_, peers_, lists);
    EXPECT_TRUE(tensors.possible());
    EXPECT_EQ(tensors.offer_bytes(), sizeof other);
    std::array<std::uint64_t, 2> offers{0, other};
    tensors.offer(reinterpret_cast<std::byte*>(offers.data()));
    const std::array<std::byte*, 2> all_offers{reinterpret_cast<std::byte*>(&offers[0]),
                                               reinterpret_cast<std::byte*>(&offers[1])};
    try {
      tensors.find(all_offers);
    } catch (const WorkFailure& failure) {
      EXPECT_FALSE(tensors.found());
      return failure.what;
    }
    EXPECT_EQ(tensors.of(0, 0), tensor_.get());
    return std::to_string(tensors.of(0, 1) - other_->file()->data());
  }

  const std::shared_ptr<Window> own_ = Window::make(0, 1 << 20), other_ = Window::make(3, 1 << 20);
  const std::shared_ptr<std::byte> tensor_ = own_->allocate(kBytes);
  Plan plan_;
  PeerGroup peers_;
  std::vector<Entry> entries_;
};

TEST_F(OffersOfOthers, MayBeAnywhereInTheirWindow) {
  const std::uint64_t size = other_->file()->size();
  EXPECT_EQ(find(0), "0");
  EXPECT_EQ(find(size - kBytes), std::to_string(size - kBytes));
}

TEST_F(OffersOfOthers, MustBeInside) {
  const std::uint64_t size = other_->file()->size();
  for (const std::uint64_t offset : {size - kBytes + 1, size, size + 1, std::uint64_t{1} << 63,
                                     std::numeric_limits<std::uint64_t>::max() - kBytes + 1}) {
    EXPECT_EQ(find(offset), "rank 3 says that a tensor of 4000 bytes lies at " + std::to_string(offset) +
                                " of its window of " + std::to_string(size));
  }
}

}  // namespace
}  // namespace rueda
