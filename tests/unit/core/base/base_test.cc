// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/config.h"
#include "core/base/error.h"
#include "core/base/operation_traits.h"
#include "core/base/topology.h"
#include "core/base/unknown_variables.h"
#include "rueda/rank_set.h"
#include "rueda/tensor_view.h"

namespace rueda {
namespace {

TEST(Types, EveryEnumeratorHasItsRow) {
  for (std::uint8_t i = 0; i < kDataTypeCount; ++i) {
    const DataType dtype = *data_type_from(i);
    EXPECT_FALSE(to_string(dtype).empty());
    EXPECT_EQ(size_of(accumulator_of(dtype)),
              std::max(size_of(dtype), is_floating_point(dtype) ? std::size_t{4} : 0));
  }
  for (std::uint8_t i = 0; i < kOperationCount; ++i) EXPECT_FALSE(to_string(*operation_from(i)).empty());
  EXPECT_FALSE(data_type_from(kDataTypeCount));
  EXPECT_FALSE(reduce_op_from(kReduceOpCount));
  EXPECT_FALSE(operation_from(kOperationCount));
}

TEST(Shape, OfAnyNumberOfDimensions) {
  for (std::size_t size = 0; size < 9; ++size) {
    std::vector<std::int64_t> values;
    Shape shape;
    for (std::size_t i = 0; i < size; ++i) {
      values.push_back(static_cast<std::int64_t>(i) + 2);
      shape.push_back(values.back());
    }
    EXPECT_EQ(shape, Shape(values));
    EXPECT_EQ(shape.size(), size);
    EXPECT_EQ(std::vector<std::int64_t>(shape.begin(), shape.end()), values);
    Shape copy(shape), zeros(size);
    EXPECT_EQ(std::ranges::count(zeros, 0), static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(zeros == shape, size == 0);
    zeros = copy;
    EXPECT_EQ(zeros, shape);
    const Shape moved(std::move(copy));
    EXPECT_EQ(moved, shape);
    EXPECT_TRUE(copy.empty());  // NOLINT(bugprone-use-after-move): that is what it promises
    copy = {7, 8};
    zeros = std::move(copy);
    EXPECT_EQ(zeros, (Shape{7, 8}));
    if (size == 0) continue;
    EXPECT_EQ(shape.front(), 2);
    EXPECT_EQ(shape.back(), shape[size - 1]);
  }
}

TEST(Shape, CountsWithinBounds) {
  EXPECT_EQ(checked_element_count(Shape{}), 1);
  EXPECT_EQ(checked_element_count(Shape{2, 0, 3}), 0);
  EXPECT_FALSE(checked_element_count(Shape{-1}));
  EXPECT_FALSE(checked_element_count(Shape{1LL << 40, 1LL << 40}));
  EXPECT_FALSE(checked_byte_count({1LL << 61}, DataType::float64));
  EXPECT_EQ(to_string(Shape{2, 3}), "[2, 3]");
}

TEST(TensorView, KnowsWhetherItIsContiguous) {
  EXPECT_TRUE(is_contiguous({2, 3}, {}));
  EXPECT_TRUE(is_contiguous({2, 3}, {3, 1}));
  EXPECT_TRUE(
      is_contiguous({2, 1, 3}, {3, 99, 1}));  // the stride of a dimension of one element means nothing
  EXPECT_FALSE(is_contiguous({2, 3}, {1, 2}));
  EXPECT_TRUE(is_contiguous({0, 3}, {7, 7}));
  EXPECT_TRUE(is_contiguous({3, 0}, {7, 7}));
}

TEST(RankSet, AddsRemovesAndSaysIt) {
  RankSet set;
  EXPECT_EQ(to_string(set), "no rank");
  set.add(4, 6);
  set.add(0, 2);
  EXPECT_EQ(to_string(set), "ranks 0-1, 4-5");
  set.add(2, 4);
  EXPECT_EQ(set, RankSet(0, 6));
  EXPECT_EQ(to_string(set - RankSet(1, 5)), "ranks 0, 5");
  EXPECT_EQ((RankSet(0, 3) - RankSet(0, 3)).count(), 0);
  EXPECT_EQ(to_string(RankSet::of(3)), "rank 3");
  RankSet odd;
  for (Rank rank = 1; rank < 40; rank += 2) odd.add(RankSet::of(rank));
  EXPECT_EQ(to_string(odd), "ranks 1, 3, 5, 7, 9, 11, 13, 15 and 12 more");
}

TEST(RankSet, MatchesAPlainSet) {
  std::uint32_t random = 1;
  RankSet set;
  std::vector<bool> plain(64);
  for (int i = 0; i < 2000; ++i) {
    random = random * 1664525 + 1013904223;
    const Rank first = static_cast<Rank>(random >> 8 & 63),
               end = static_cast<Rank>(std::min<std::uint32_t>(64, first + (random >> 16 & 7)));
    const bool add = (random >> 24 & 1) != 0;
    if (add) set.add(first, end);
    if (!add && first < end) set.remove(RankSet(first, end));
    for (Rank rank = first; rank < end; ++rank) plain[rank] = add;
    for (Rank rank = 0; rank < 64; ++rank) ASSERT_EQ(set.contains(rank), plain[rank]) << i;
    ASSERT_EQ(set.count(), std::count(plain.begin(), plain.end(), true));
  }
}

// Two sets as the bits of a word each.
TEST(RankSet, CombinesAsPlainSetsDo) {
  constexpr Rank kRanks = 16;
  auto set_of = [](std::uint32_t bits) {
    RankSet set;
    for (Rank rank = 0; rank < kRanks; ++rank)
      if ((bits >> rank & 1) != 0) set.add(RankSet::of(rank));
    return set;
  };
  std::uint32_t random = 1;
  for (int i = 0; i < 5000; ++i) {
    random = random * 1664525 + 1013904223;
    const std::uint32_t a = random >> 16, more = (random = random * 1664525 + 1013904223) >> 16;
    const std::uint32_t b = i % 3 == 0 ? a & more : more;
    RankSet either = set_of(a);
    either.add(set_of(b));
    ASSERT_EQ(either, set_of(a | b));
    ASSERT_EQ(set_of(a) & set_of(b), set_of(a & b));
    ASSERT_EQ(set_of(a) - set_of(b), set_of(a & ~b));
    ASSERT_EQ(set_of(a).contains(set_of(b)), (b & ~a) == 0);
  }
}

// Departures come one by one, and every other rank may be among them.
TEST(RankSet, ManyRangesAreNoMoreThanALine) {
  constexpr Rank kRanks = 200'000;
  RankSet odd, even;
  for (Rank rank = 0; rank < kRanks; rank += 2) {
    even.add(RankSet::of(rank));
    odd.add(RankSet::of(rank + 1));
  }
  EXPECT_TRUE((even & odd).empty());
  EXPECT_EQ(even - odd, even);
  EXPECT_TRUE(even.contains(even));
  EXPECT_FALSE(even.contains(odd));
  even.add(odd);
  EXPECT_EQ(even, RankSet(0, kRanks));
}

TEST(Reader, NeverReadsPastTheEnd) {
  Writer writer;
  writer.put(std::int32_t{7});
  writer.put_string("name");
  const Bytes bytes = writer.take();
  Reader good(bytes);
  EXPECT_EQ(good.get<std::int32_t>(), 7);
  EXPECT_EQ(good.get_string(), "name");
  EXPECT_TRUE(good.complete());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    Reader cut(ConstBytes(bytes).first(length));
    cut.get<std::int32_t>();
    cut.get_string();
    EXPECT_FALSE(cut.ok()) << length;
  }
}

TEST(Reader, RefusesCountsThatCannotBe) {
  Writer writer;
  writer.put_count(1'000'000'000);
  const Bytes bytes = writer.take();
  Reader reader(bytes);
  EXPECT_EQ(reader.get_count(8), 0u);
  EXPECT_FALSE(reader.ok());
}

TEST(Reader, ReadsSizesOfAnyLengthInOneSpellingOnly) {
  const std::vector<std::uint64_t> sizes{0, 1, 127, 128, 16'383, 16'384, 1u << 31, (1ull << 63) - 1};
  Writer writer;
  for (std::uint64_t size : sizes) writer.put_size(size);
  const Bytes bytes = writer.take();
  EXPECT_EQ(bytes.size(), 1u + 1 + 1 + 2 + 2 + 3 + 5 + 9);
  Reader reader(bytes);
  for (std::uint64_t size : sizes) EXPECT_EQ(static_cast<std::uint64_t>(reader.get_size()), size);
  EXPECT_TRUE(reader.complete());
  for (const std::vector<int>& wrong :
       {std::vector<int>{0x80, 0x00}, {0x80}, std::vector<int>(9, 0xff), std::vector<int>(10, 0x80)}) {
    Bytes damaged;
    for (int byte : wrong) damaged.push_back(static_cast<std::byte>(byte));
    Reader refusing(damaged);
    EXPECT_EQ(refusing.get_size(), 0);
    EXPECT_FALSE(refusing.ok());
  }
}

TEST(Topology, PlacesRanksOnHosts) {
  const std::vector<std::string> hosts{"a", "b", "a", "b", "a"};
  EXPECT_EQ(make_topology(0, hosts), (Topology{0, 5, 0, 3, 0, 2, false}));
  EXPECT_EQ(make_topology(3, hosts), (Topology{3, 5, 1, 2, 1, 2, false}));
  EXPECT_EQ(make_topology(4, hosts), (Topology{4, 5, 2, 3, 0, 1, false}));
  EXPECT_TRUE(make_topology(0, std::vector<std::string>{"a", "b"}).homogeneous);
}

TEST(Topology, WhoWasThereKeepsItsLocalRankAndOthersGetTheLowestFreeOne) {
  const std::vector<std::string> hosts{"a", "a", "b", "a", "a"};
  const std::vector<Rank> kept{2, 0, 1, -1, -1};
  const auto local = [&](Rank rank) { return make_topology(rank, hosts, kept).local_rank; };
  EXPECT_EQ(local(0), 2);
  EXPECT_EQ(local(1), 0);
  EXPECT_EQ(local(2), 1);
  EXPECT_EQ(local(3), 1);
  EXPECT_EQ(local(4), 3);
  EXPECT_EQ(make_topology(2, hosts, kept), (Topology{2, 5, 1, 1, 0, 2, false}));
  EXPECT_EQ(make_topology(3, hosts, kept), (Topology{3, 5, 1, 4, 1, 2, false}));
  const std::vector<Rank> twice{1, 1, -1, -1, -1};
  EXPECT_EQ(make_topology(1, hosts, twice).local_rank, 0) << "two cannot have the same";
}

TEST(Config, FindsWhatIsMisspelled) {
  EXPECT_EQ(meant_setting("RUEDA_FUSION_TRESHOLD"), "RUEDA_FUSION_THRESHOLD");
  EXPECT_EQ(meant_setting("RUEDA_CYCEL_TIME"), "RUEDA_CYCLE_TIME");
  EXPECT_EQ(meant_setting("RUEDA_SHMM"), "RUEDA_SHM");
  for (const char* name : {"RUEDA_SHM", "RUEDA_CYCLE_TIME", "RUEDA_RANK", "RUEDA_SIZE", "RUEDA_LOCAL_RANK",
                           "RUEDA_DATA", "RUEDA_BIN", "RUEDA_JOBS", "HOROVOD_CYCEL_TIME", "RUEDA_", ""})
    EXPECT_EQ(meant_setting(name), std::nullopt) << name;
  const std::vector<const char*> environment{"RUEDA_SHN=0", "PATH=RUEDA_SHN", "RUEDA_SHM=1",
                                             "RUEDA_LOG_LEVLE"};
  EXPECT_EQ(
      misspelled_settings(environment),
      (std::vector<std::string>{"RUEDA_LOG_LEVLE is no setting and has no effect; is RUEDA_LOG_LEVEL meant?",
                                "RUEDA_SHN is no setting and has no effect; is RUEDA_SHM meant?"}));
}

TEST(Config, ReadsTheEnvironmentAndKnowsWhereFrom) {
  std::map<std::string, std::string> variables{
      {"RUEDA_CYCLE_TIME", "2.5"}, {"HOROVOD_CYCLE_TIME", "9"}, {"HOROVOD_FUSION_THRESHOLD", "1024"}};
  auto environment = [&](const std::string& name) {
    auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  const ConfigWithOrigins read = read_config(environment);
  EXPECT_EQ(read.config.cycle_time, 2.5);  // RUEDA_ wins
  EXPECT_EQ(read.config.fusion_threshold, 1024);
  for (std::size_t i = 0; i < settings().size(); ++i) {
    const bool threshold = settings()[i].name == "FUSION_THRESHOLD",
               cycle = settings()[i].name == "CYCLE_TIME";
    EXPECT_EQ(read.origins[i], threshold ? "HOROVOD_FUSION_THRESHOLD"
                               : cycle   ? "RUEDA_CYCLE_TIME"
                                         : "default");
  }
}

TEST(Config, NamesABadValue) {
  for (const char* value : {"", "x", "-1", "1e99", "nan", "12MB"}) {
    auto environment = [&](const std::string& name) {
      return name == "RUEDA_START_TIMEOUT" ? value : nullptr;
    };
    try {
      read_config(environment);
      ADD_FAILURE() << value << " was accepted";
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find("RUEDA_START_TIMEOUT"), std::string::npos);
      EXPECT_NE(std::string(error.what()).find("seconds, 0.1 to 86400"), std::string::npos);
    }
  }
}

TEST(Config, ReductionOrderIsAnyOrFixed) {
  auto read = [](const char* value) {
    return read_config(
        [value](const std::string& name) { return name == "RUEDA_REDUCTION_ORDER" ? value : nullptr; });
  };
  EXPECT_EQ(Config().reduction_order, ReductionOrder::any);
  EXPECT_EQ(read("fixed").config.reduction_order, ReductionOrder::fixed);
  EXPECT_EQ(read("any").config.reduction_order, ReductionOrder::any);
  EXPECT_THROW(read("FIXED"), InvalidArgument);
}

TEST(Config, EveryDefaultIsLegal) {
  for (const Setting& setting : settings()) {
    Config config;
    const std::string shown = setting.show(config);
    EXPECT_TRUE(setting.read(config, shown)) << setting.name;
    EXPECT_EQ(setting.show(config), shown);
  }
}

TEST(Error, EveryCodeThrowsItsClass) {
  EXPECT_NO_THROW(throw_if_error({}));
  EXPECT_THROW(throw_if_error(Status::mismatch("m")), Mismatch);
  EXPECT_THROW(throw_if_error(Status::peer_lost("m")), PeerLost);
  EXPECT_THROW(throw_if_error({StatusCode::stalled, "m"}), Stalled);
  EXPECT_THROW(throw_if_error(Status::shut_down("m")), ShutDown);
  EXPECT_THROW(throw_if_error(Status::not_initialized("m")), NotInitialized);
  EXPECT_THROW(throw_if_error(Status::backend_error("m")), BackendError);
  EXPECT_THROW(throw_if_error(Status::invalid_argument("m")), InvalidArgument);
}

}  // namespace
}  // namespace rueda
