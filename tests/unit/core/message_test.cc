// SPDX-License-Identifier: Apache-2.0
// What crosses ranks: every message survives the way, and every damage is an error or another legal message,
// never a crash.
#include <gtest/gtest.h>

#include "core/control/message.h"

namespace rueda {
namespace {

Request some_request(const std::string& name) {
  return {name, Operation::allreduce, DataType::bfloat16, {3, 4}, ReduceOp::max, 0.5, 2.0, 1};
}

SharedRequest shared(const std::string& name) { return std::make_shared<const Request>(some_request(name)); }

std::vector<Message> samples() {
  Plan plan;
  plan.number = 42;
  plan.process_set = 3;
  plan.dtype = DataType::int8;
  plan.chunk_bytes = 64;
  plan.result = -5;
  plan.evicted = {7, 300};
  plan.tensors = {{9, true, shared("a"), 0}, {10, false, nullptr, 0}, {0, true, shared("b"), 0}};
  Plan error;
  error.number = 43;
  error.status = Status::mismatch("differ");
  error.tensors = {{0, true, shared("c"), 0}};
  RankSet ranks(0, 3);
  ranks.add(7, 9);
  IdSet ids;
  for (CacheId id : {1, 2, 63, 64, 1000}) ids.add(id);
  Request grouped = some_request("g");
  grouped.group = "group";
  grouped.group_size = 3;
  grouped.members = ranks;
  return {
      Hello{{{0, "0.1.0", "host", 4711, {"A=1", "B=2"}, "card"}, {1, "0.1.0", "other", 1, {}, ""}}},
      Welcome{{}, {"x", "y"}, {1, 2}, {"card", ""}},
      Welcome{Status::peer_lost("gone"), {}, {}, {}},
      Report{41,
             ids,
             {{{shared("a"), ranks}}, {{shared("b"), RankSet::of(0)}, {shared("b"), RankSet::of(1)}}},
             ranks},
      Orders{{plan, error}, true},
      Failure{Status::backend_error("broken")},
      Stall{std::make_shared<const Request>(grouped)},
      Inquiry{4, 0.75, {{0, "a"}, {3, "b"}}},
      Answer{4, {{ranks, RankSet::of(5), RankSet::of(6), {{5, "is late"}}}, {}}},
  };
}

TEST(Message, SurvivesTheWay) {
  for (const Message& message : samples()) {
    const std::optional<Message> read = decode(encode(message));
    ASSERT_TRUE(read) << message.index();
    EXPECT_EQ(*read, message);
  }
}

TEST(Message, EveryTruncationIsAnError) {
  for (const Message& message : samples()) {
    const Bytes bytes = encode(message);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_FALSE(decode(ConstBytes(bytes).first(length))) << message.index() << " cut at " << length;
    }
    Bytes longer = bytes;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(decode(longer)) << message.index();
  }
}

TEST(Message, EveryFlippedBitIsReadWithinBounds) {
  for (const Message& message : samples()) {
    Bytes bytes = encode(message);
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
      // What can still be read can be written and read again: nothing was made up.
      if (std::optional<Message> read = decode(bytes)) {
        EXPECT_EQ(decode(encode(*read)).has_value(), true) << message.index() << " bit " << bit;
      }
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    }
  }
}

TEST(Message, ALongCardIsAnError) {
  const std::string card(kLongestCard, 'x');
  EXPECT_TRUE(decode(encode(Welcome{{}, {"x"}, {1}, {card}})));
  EXPECT_FALSE(decode(encode(Welcome{{}, {"x"}, {1}, {card + 'x'}})));
  EXPECT_FALSE(decode(encode(Hello{{{0, "1", "x", 1, {}, card + 'x'}}})));
}

TEST(Request, DifferencesAreNamedFieldByField) {
  const Request base = some_request("t");
  auto differs = [&](auto change) {
    Request other = base;
    change(other);
    return difference(base, other).field;
  };
  EXPECT_TRUE(compatible(base, base));
  EXPECT_EQ(differs([](Request& r) { r.operation = Operation::allgather; }), "operation");
  EXPECT_EQ(differs([](Request& r) { r.dtype = DataType::int8; }), "dtype");
  EXPECT_EQ(differs([](Request& r) { r.shape = {3, 5}; }), "shape");
  EXPECT_EQ(differs([](Request& r) { r.shape = {3}; }), "shape");
  EXPECT_EQ(differs([](Request& r) { r.reduce_op = ReduceOp::min; }), "reduce op");
  EXPECT_EQ(differs([](Request& r) { r.root = 0; }), "root rank");
  EXPECT_EQ(differs([](Request& r) { r.prescale_factor = 1; }), "prescale factor");
  EXPECT_EQ(differs([](Request& r) { r.postscale_factor = 1; }), "postscale factor");
}

TEST(Request, RaggedOperationsMayDifferInTheFirstDimensionOnly) {
  Request a = some_request("t"), b = a;
  a.operation = b.operation = Operation::allgather;
  b.shape = {100, 4};
  EXPECT_TRUE(compatible(a, b));
  b.shape = {3, 5};
  EXPECT_FALSE(compatible(a, b));
}

}  // namespace
}  // namespace rueda
