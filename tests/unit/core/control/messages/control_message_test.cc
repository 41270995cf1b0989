// SPDX-License-Identifier: Apache-2.0
// What crosses ranks: every message survives the way, and every damage is an error or another legal message,
// never a crash.
#include <gtest/gtest.h>

#include <cmath>

#include "core/control/messages/control_message.h"
#include "core/control/negotiation/request_cache.h"
#include "tests/support/worlds/message_samples.h"

namespace rueda {
namespace {

TEST(Message, SurvivesTheWay) {
  for (const Message& message : message_samples()) {
    const std::optional<Message> read = decode(encode(message));
    ASSERT_TRUE(read) << message.index();
    EXPECT_EQ(*read, message);
  }
}

TEST(Message, EveryTruncationIsAnError) {
  for (const Message& message : message_samples()) {
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
  for (const Message& message : message_samples()) {
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
  const std::string info(kLongestPeerInfo, 'x');
  EXPECT_TRUE(decode(encode(Welcome{{}, {"x"}, {1}, {info}})));
  EXPECT_TRUE(decode(encode(Welcome{{}, {"x"}, {1}, {""}, {3}})));
  EXPECT_FALSE(decode(encode(Welcome{{}, {"x"}, {1}, {""}, {3, 4}}))) << "more local ranks than ranks";
  EXPECT_FALSE(decode(encode(Welcome{{}, {"x"}, {1}, {info + 'x'}})));
  EXPECT_FALSE(decode(encode(Hello{{{0, "1", "x", 1, {}, info + 'x'}}})));
}

TEST(Message, AnAbortOfNoPlanOrWithoutAReasonIsAnError) {
  EXPECT_TRUE(decode(encode(Abort{1, Status::backend_error("x")})));
  EXPECT_FALSE(decode(encode(Abort{0, Status::backend_error("x")})));
  EXPECT_FALSE(decode(encode(Abort{1, {}})));
}

TEST(Message, AFailureWithoutAReasonIsAnError) {
  EXPECT_TRUE(decode(encode(Failure{Status::backend_error("x")})));
  EXPECT_FALSE(decode(encode(Failure{})));
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
  EXPECT_EQ(differs([](Request& r) { r.reduction_order = ReductionOrder::fixed; }), "reduction order");
  EXPECT_EQ(differs([](Request& r) { r.compression = Compression::fp16; }), "compression");
  EXPECT_EQ(differs([](Request& r) { r.compression_share = 0.5; }), "compression share");
  EXPECT_EQ(differs([](Request& r) { r.measure = true; }), "measure");
  EXPECT_EQ(differs([](Request& r) { r.signature = 1; }), "signature");
}

TEST(Message, OnlyAnAllreduceOnADeviceIsElsewhere) {
  auto survives = [](DeviceKind device, Operation operation) {
    Request request;
    request.name = "t";
    request.device = device;
    request.operation = operation;
    request.elsewhere = true;
    const std::optional<Message> read = decode(encode(Stall{std::make_shared<const Request>(request)}));
    if (read) {
      EXPECT_TRUE(std::get<Stall>(*read).request->elsewhere);
    }
    return read.has_value();
  };
  EXPECT_TRUE(survives(DeviceKind::cuda, Operation::allreduce));
  EXPECT_FALSE(survives(DeviceKind::host, Operation::allreduce));
  EXPECT_FALSE(survives(DeviceKind::cuda, Operation::broadcast));
}

TEST(Message, WhatCannotBeMeasuredIsAnError) {
  auto survives = [](DataType dtype, Operation operation) {
    Request request = some_request("t");
    request.dtype = dtype;
    request.operation = operation;
    request.measure = true;
    return decode(encode(Stall{std::make_shared<const Request>(request)})).has_value();
  };
  EXPECT_TRUE(survives(DataType::float16, Operation::allreduce));
  EXPECT_FALSE(survives(DataType::int32, Operation::allreduce));
  EXPECT_FALSE(survives(DataType::float32, Operation::reducescatter));
}

// What a Plan's tensors have in common follows from their requests.
TEST(Message, APlanIsWhatItsRequestsSay) {
  Request request = some_request("t");
  request.dtype = DataType::float16;
  request.prescale_factor = 0.5;
  request.process_set = 3;
  Plan plan;
  plan.chunk_bytes = 1;
  plan.tensors = {{1, true, std::make_shared<const Request>(request), 0}};
  const std::optional<Message> read = decode(encode(Orders{{plan}, false}));
  ASSERT_TRUE(read);
  Plan arrived = std::get<Orders>(*read).plans.front();
  EXPECT_TRUE(RequestCache().resolve(arrived, 0));
  EXPECT_EQ(arrived.dtype, DataType::float16);
  EXPECT_EQ(arrived.prescale_factor, 0.5);
  EXPECT_EQ(arrived.process_set, 3u);
  EXPECT_EQ(arrived.buffer_bytes, fused_bytes(request));
  // Two of one kind, or not.
  arrived.tensors.push_back({2, true, std::make_shared<const Request>(request), 0});
  EXPECT_TRUE(RequestCache().resolve(arrived, 0));
  for (const double scale : {0.25, 0.5}) {
    request.prescale_factor = scale;
    request.dtype = scale == 0.25 ? DataType::float16 : DataType::float32;
    arrived.tensors.back().request = std::make_shared<const Request>(request);
    EXPECT_FALSE(RequestCache().resolve(arrived, 0)) << scale;
  }
  // Of one that nobody knows.
  arrived.tensors = {{9, false, nullptr, 0}};
  EXPECT_FALSE(RequestCache().resolve(arrived, 0));
}

TEST(Message, SharesThatCannotBeAreAnError) {
  auto survives = [](double share, DataType dtype, ReduceOp op, ReductionOrder order, std::size_t tensors) {
    Request request = some_request("t");
    request.dtype = dtype;
    request.reduce_op = op;
    request.reduction_order = order;
    request.compression = Compression::topk;
    request.compression_share = share;
    const auto shared = std::make_shared<const Request>(request);
    Plan plan;
    plan.chunk_bytes = 1;
    plan.tensors.assign(tensors, {1, true, shared, 0});
    const std::optional<Message> read = decode(encode(Orders{{plan}, false}));
    EXPECT_EQ(read.has_value(), decode(encode(Stall{shared})).has_value());
    if (!read) return false;
    Plan arrived = std::get<Orders>(*read).plans.front();
    return RequestCache().resolve(arrived, 0);
  };
  constexpr auto kAny = ReductionOrder::any;
  EXPECT_TRUE(survives(1.0, DataType::float32, ReduceOp::sum, kAny, 1));
  EXPECT_TRUE(survives(1e-9, DataType::float32, ReduceOp::average, kAny, 1));
  for (const double share : {0.0, -1.0, 1.5, std::nan("")})
    EXPECT_FALSE(survives(share, DataType::float32, ReduceOp::sum, kAny, 1)) << share;
  EXPECT_FALSE(survives(0.5, DataType::float64, ReduceOp::sum, kAny, 1));
  EXPECT_FALSE(survives(0.5, DataType::float32, ReduceOp::max, kAny, 1));
  EXPECT_FALSE(survives(0.5, DataType::float32, ReduceOp::sum, ReductionOrder::fixed, 1));
  EXPECT_FALSE(survives(0.5, DataType::float32, ReduceOp::sum, kAny, 2));
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
