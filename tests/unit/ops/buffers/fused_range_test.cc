// SPDX-License-Identifier: Apache-2.0
#include "ops/buffers/fused_range.h"

#include <gmock/gmock.h>

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace rueda {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Plan plan_of(const std::vector<std::pair<std::int64_t, std::int64_t>>& offsets_and_elements) {
  Plan plan;
  plan.dtype = DataType::float32;
  for (const auto& [offset, elements] : offsets_and_elements) {
    auto request = std::make_shared<Request>();
    request->shape = {elements};
    plan.tensors.push_back({.request = std::move(request), .offset = offset});
  }
  return plan;
}

// The tensor, the offset in it, the offset in the range, the bytes.
using Piece = std::array<std::size_t, 4>;

std::vector<Piece> pieces_in(const FusedRange& range) {
  std::vector<Piece> pieces;
  for (const auto& [tensor, in_tensor, in_range, bytes] : range)
    pieces.push_back({tensor, in_tensor, in_range, bytes});
  return pieces;
}

TEST(FusedRange, BytesBetweenTensorsBelongToNoPiece) {
  const Plan plan = plan_of({{0, 10}, {64, 4}, {128, 1}});
  EXPECT_THAT(pieces_in(FusedRange(plan, 8, 130)),
              ElementsAre(Piece{0, 8, 0, 32}, Piece{1, 0, 56, 16}, Piece{2, 0, 120, 2}));
  EXPECT_THAT(pieces_in(FusedRange(plan, 40, 64)), IsEmpty());
  EXPECT_THAT(pieces_in(FusedRange(plan, 68, 72)), ElementsAre(Piece{1, 4, 0, 4}));
  EXPECT_THAT(pieces_in(FusedRange(plan, 132, 200)), IsEmpty());
}

TEST(FusedRange, EmptyTensorsHaveNoPiece) {
  const Plan plan = plan_of({{0, 0}, {0, 2}, {64, 0}, {64, 1}});
  EXPECT_THAT(pieces_in(FusedRange(plan, 0, 100)), ElementsAre(Piece{1, 0, 0, 8}, Piece{3, 0, 64, 4}));
}

TEST(FusedRange, NoPieceIsLongerThanAsked) {
  const Plan plan = plan_of({{0, 5}, {64, 2}});
  EXPECT_THAT(pieces_in(FusedRange(plan, 4, 72, 8)),
              ElementsAre(Piece{0, 4, 0, 8}, Piece{0, 12, 8, 8}, Piece{1, 0, 60, 8}));
}

TEST(FusedRange, ATensorAloneBeginsAtZero) {
  const Plan plan = plan_of({{4096, 8}});
  EXPECT_THAT(pieces_in(FusedRange(plan, 4, 24)), ElementsAre(Piece{0, 4, 0, 20}));
  EXPECT_THAT(pieces_in(FusedRange(plan_of({{0, 0}}), 0, 8)), IsEmpty());
}

}  // namespace
}  // namespace rueda
