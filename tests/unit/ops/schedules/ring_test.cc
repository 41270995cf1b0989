// SPDX-License-Identifier: Apache-2.0
// The ring schedule, carried out on plain integers.
#include <gtest/gtest.h>

#include "ops/schedules/ring.h"

namespace rueda {
namespace {

struct RingCase {
  Rank size;
  std::vector<std::int64_t> bounds;
  std::int64_t chunk;
  std::int64_t depth;
};

std::vector<RingSchedule> schedules(const RingCase& c, bool reduces, bool gathers) {
  std::vector<RingSchedule> result;
  for (Rank rank = 0; rank < c.size; ++rank) {
    result.emplace_back(RingSchedule::Shape{rank, c.size, c.bounds, reduces, gathers, c.chunk, c.depth});
  }
  return result;
}

// Runs all ranks in lock step by message number and checks every rule that RingPass relies on.
void run(const RingCase& c, bool reduces, bool gathers) {
  const std::vector<RingSchedule> ranks = schedules(c, reduces, gathers);
  const std::int64_t elements = c.bounds.back(), messages = ranks[0].messages();
  // own[r][e]: 2^r; the complete sum is 2^size - 1.
  const std::int64_t all = (std::int64_t{1} << c.size) - 1;
  std::vector<std::vector<std::int64_t>> output(c.size, std::vector<std::int64_t>(elements, -1));
  if (!reduces) {
    for (Rank rank = 0; rank < c.size; ++rank) {
      for (std::int64_t e = c.bounds[rank]; e < c.bounds[rank + 1]; ++e) output[rank][e] = all;
    }
  }
  std::vector<std::vector<std::vector<std::int64_t>>> came(c.size,
                                                           std::vector<std::vector<std::int64_t>>(messages));
  for (std::int64_t k = 0; k < messages; ++k) {
    for (Rank rank = 0; rank < c.size; ++rank) {
      const Rank previous = (rank + c.size - 1) % c.size;
      const auto sent = ranks[previous].sent(k), received = ranks[rank].received(k);
      ASSERT_EQ(sent.begin, received.begin);
      ASSERT_EQ(sent.count, received.count);
      ASSERT_LE(sent.count, c.chunk);
      const std::int64_t forwards = ranks[previous].forwards(k);
      ASSERT_LT(forwards, k);
      ASSERT_EQ(forwards < 0, sent.first);
      for (std::int64_t i = 0; i < sent.count; ++i) {
        const std::int64_t e = sent.begin + i;
        std::int64_t value = sent.reducing
                                 ? (sent.first ? std::int64_t{1} << previous : came[previous][forwards][i])
                                 : output[previous][e];
        if (received.reducing) {
          value += std::int64_t{1} << rank;
          came[rank][k].push_back(value);
          if (received.complete) output[rank][e] = value;
        } else {
          output[rank][e] = value;
        }
      }
      if (const std::int64_t own = ranks[rank].overwrites(k); own >= 0) {
        ASSERT_LT(own, k);
        ASSERT_EQ(ranks[rank].sent(own).begin, received.begin);
      }
    }
  }
  for (Rank rank = 0; rank < c.size; ++rank) {
    for (std::int64_t e = 0; e < elements; ++e) {
      const bool mine = c.bounds[rank] <= e && e < c.bounds[rank + 1];
      if (!gathers && !mine) continue;
      ASSERT_EQ(output[rank][e], all) << "rank " << rank << " element " << e;
    }
  }
}

TEST(RingSchedule, EverySumIsCompleteWhereItShouldBe) {
  for (Rank size : {2, 3, 4, 7}) {
    for (std::int64_t elements : {0, 1, 5, 64, 1000}) {
      for (std::int64_t chunk : {1, 7, 100}) {
        for (std::int64_t depth : {1, 3, 4}) {
          const RingCase even{size, RingSchedule::even_bounds(elements, size, 4), chunk, depth};
          run(even, true, true);
          run(even, true, false);
          run(even, false, true);
        }
      }
    }
  }
}

TEST(RingSchedule, SegmentsMayDiffer) {
  const RingCase ragged{4, {0, 0, 17, 17, 40}, 5, 3};
  run(ragged, true, true);
  run(ragged, true, false);
  run(ragged, false, true);
}

TEST(RingSchedule, OneRankHasNothingToSend) {
  const RingSchedule schedule({0, 1, {0, 10}, true, true, 4, 4});
  EXPECT_EQ(schedule.messages(), 0);
}

TEST(RingSchedule, EvenBoundsStartAtMultiplesAndCoverAll) {
  const auto bounds = RingSchedule::even_bounds(1001, 3, 16);
  EXPECT_EQ(bounds.front(), 0);
  EXPECT_EQ(bounds.back(), 1001);
  EXPECT_EQ(bounds[1] % 16, 0);
  EXPECT_EQ(bounds[2] % 16, 0);
}

}  // namespace
}  // namespace rueda
