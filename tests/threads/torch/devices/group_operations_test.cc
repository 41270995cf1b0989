// SPDX-License-Identifier: Apache-2.0
// The operations of a c10d group on tensors of devices give what they give on the host.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/worlds/group_world.h"

namespace rueda {
namespace {

using testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;
// What a rank has after an operation on tensors of that device.
using Act = std::function<Tensors(ProcessGroup&, at::Device)>;

at::Tensor values_of(int rank, at::IntArrayRef sizes, at::Device device, at::ScalarType type = at::kFloat) {
  std::int64_t count = 1;
  for (const std::int64_t each : sizes) count *= each;
  return (at::arange(count, at::kLong).remainder(7) + 3 * rank + 1).to(type).reshape(sizes).to(device);
}

Tensors zeros_of(int count, at::IntArrayRef sizes, at::Device device, at::ScalarType type = at::kFloat) {
  Tensors zeros;
  for (int i = 0; i < count; ++i) zeros.push_back(at::zeros(sizes, at::TensorOptions(device).dtype(type)));
  return zeros;
}

at::Tensor zeros_in(at::IntArrayRef sizes, at::Device device, at::ScalarType type = at::kFloat) {
  return zeros_of(1, sizes, device, type)[0];
}

Act allreduce_by(c10d::ReduceOp op, at::ScalarType type, bool strided = false) {
  return [=](ProcessGroup& group, at::Device device) {
    at::Tensor values = values_of(group.getRank(), {3, 4}, device, type);
    Tensors tensors{strided ? values.t() : values};
    c10d::AllreduceOptions options;
    options.reduceOp = op;
    group.allreduce(tensors, options)->wait();
    return tensors;
  };
}

Act gather_into_lists(bool strided, at::ScalarType type) {
  return [=](ProcessGroup& group, at::Device device) {
    Tensors inputs{values_of(group.getRank(), {2, 3}, device, type)};
    TensorLists outputs{
        zeros_of(group.getSize(), strided ? at::IntArrayRef{3, 2} : at::IntArrayRef{2, 3}, device, type)};
    if (strided) {
      for (at::Tensor& each : outputs[0]) each = each.t();
    }
    group.allgather(outputs, inputs, {})->wait();
    return outputs[0];
  };
}

Tensors gather_in_place(ProcessGroup& group, at::Device device) {
  at::Tensor output = zeros_in({4 * group.getSize()}, device);
  at::Tensor input = output.narrow(0, 4 * group.getRank(), 4);
  input.copy_(values_of(group.getRank(), {4}, device));
  group._allgather_base(output, input, {})->wait();
  return {output};
}

Tensors gather_mixed_types(ProcessGroup& group, at::Device device) {
  Tensors inputs{values_of(group.getRank(), {3}, device, at::kByte),
                 values_of(group.getRank(), {5}, device, at::kDouble)};
  TensorLists outputs;
  for (int rank = 0; rank < group.getSize(); ++rank)
    outputs.push_back({zeros_in({3}, device, at::kByte), zeros_in({5}, device, at::kDouble)});
  group.allgather_coalesced(outputs, inputs, {})->wait();
  Tensors all;
  for (const Tensors& each : outputs) all.insert(all.end(), each.begin(), each.end());
  return all;
}

Tensors broadcast_strided(ProcessGroup& group, at::Device device) {
  Tensors tensors{values_of(group.getRank(), {4, 3}, device).t()};
  c10d::BroadcastOptions options;
  options.rootRank = 1;
  group.broadcast(tensors, options)->wait();
  return tensors;
}

Tensors reduce_to_one(ProcessGroup& group, at::Device device) {
  Tensors tensors{values_of(group.getRank(), {6}, device)};
  c10d::ReduceOptions options;
  options.rootRank = 1;
  group.reduce(tensors, options)->wait();
  return tensors;  // those of others stay as they are
}

Tensors gather_to_one(ProcessGroup& group, at::Device device) {
  Tensors inputs{values_of(group.getRank(), {5}, device)};
  TensorLists outputs;
  if (group.getRank() == 0) outputs.push_back(zeros_of(group.getSize(), {5}, device));
  group.gather(outputs, inputs, {})->wait();
  return outputs.empty() ? Tensors{} : outputs[0];
}

Tensors scatter_from_one(ProcessGroup& group, at::Device device) {
  Tensors outputs{zeros_in({2, 2}, device)};
  TensorLists inputs;
  if (group.getRank() == 0) {
    inputs.emplace_back();
    for (int rank = 0; rank < group.getSize(); ++rank) inputs[0].push_back(values_of(rank, {2, 2}, device));
  }
  group.scatter(outputs, inputs, {})->wait();
  return outputs;
}

Act reduce_scatter_by(c10d::ReduceOp op, at::ScalarType type) {
  return [=](ProcessGroup& group, at::Device device) {
    at::Tensor input = values_of(group.getRank(), {2 * group.getSize(), 3}, device, type);
    at::Tensor output = zeros_in({2, 3}, device, type);
    c10d::ReduceScatterOptions options;
    options.reduceOp = op;
    group._reduce_scatter_base(output, input, options)->wait();
    return Tensors{output};
  };
}

Tensors reduce_scatter_uneven(ProcessGroup& group, at::Device device) {
  Tensors outputs{zeros_in({1 + group.getRank()}, device)};
  TensorLists inputs(1);
  for (int rank = 0; rank < group.getSize(); ++rank)
    inputs[0].push_back(values_of(group.getRank(), {1 + rank}, device));
  group.reduce_scatter(outputs, inputs, {})->wait();
  return outputs;
}

Tensors exchange_lists(ProcessGroup& group, at::Device device) {
  Tensors inputs, outputs = zeros_of(group.getSize(), {2}, device);
  for (int rank = 0; rank < group.getSize(); ++rank)
    inputs.push_back(values_of(10 * group.getRank() + rank, {2}, device));
  group.alltoall(outputs, inputs, {})->wait();
  return outputs;
}

Tensors exchange_rows(ProcessGroup& group, at::Device device) {
  const int rank = group.getRank(), size = group.getSize();
  std::vector<std::int64_t> sent, received;
  std::int64_t rows = 0;
  for (int other = 0; other < size; ++other) {
    sent.push_back(1 + (rank + other) % 3);
    received.push_back(1 + (rank + other) % 3);
    rows += sent.back();
  }
  at::Tensor input = values_of(rank, {rows, 2}, device), output = zeros_in({rows, 2}, device);
  group.alltoall_base(output, input, received, sent, {})->wait();
  return {output};
}

Tensors reduce_several(ProcessGroup& group, at::Device device) {
  Tensors tensors{values_of(group.getRank(), {5}, device), values_of(group.getRank(), {2, 2}, device)};
  group.allreduce_coalesced(tensors, {})->wait();
  return tensors;
}

Tensors pass_around(ProcessGroup& group, at::Device device) {
  const int rank = group.getRank(), size = group.getSize();
  Tensors sent{values_of(rank, {4, 2}, device).t()}, received{zeros_in({2, 4}, device)};
  const auto send = group.send(sent, (rank + 1) % size, 3);
  const auto receive = group.recv(received, (rank + size - 1) % size, 3);
  receive->wait();
  send->wait();
  return received;
}

Tensors add_sparse(ProcessGroup& group, at::Device device) {
  const at::Tensor indices = (at::arange(3, at::kLong) + group.getRank()).unsqueeze(0).to(device);
  Tensors tensors{at::sparse_coo_tensor(indices, values_of(group.getRank(), {3, 2}, device), {8, 2},
                                        at::TensorOptions(device).dtype(at::kFloat))};
  group.allreduce(tensors, {})->wait();
  return {tensors[0].to_dense()};
}

const std::map<std::string, Act>& acts() {
  using c10d::ReduceOp;
  static const std::map<std::string, Act> all{
      {"Sum", allreduce_by(ReduceOp::SUM, at::kFloat)},
      {"Average", allreduce_by(ReduceOp::AVG, at::kDouble)},
      {"Product", allreduce_by(ReduceOp::PRODUCT, at::kInt)},
      {"Maximum", allreduce_by(ReduceOp::MAX, at::kBFloat16)},
      {"Scaled", allreduce_by(c10d::makeNCCLPreMulSum(0.5), at::kFloat)},
      {"WithGaps", allreduce_by(ReduceOp::SUM, at::kFloat, true)},
      {"Bits", allreduce_by(ReduceOp::BXOR, at::kShort)},
      {"Unsigned", allreduce_by(ReduceOp::MIN, at::kUInt16)},
      {"Complex", allreduce_by(ReduceOp::SUM, at::kComplexFloat)},
      {"Several", reduce_several},
      {"Sparse", add_sparse},
      {"Broadcast", broadcast_strided},
      {"Reduce", reduce_to_one},
      {"Lists", gather_into_lists(false, at::kFloat)},
      {"ListsWithGaps", gather_into_lists(true, at::kComplexDouble)},
      {"InPlace", gather_in_place},
      {"MixedTypes", gather_mixed_types},
      {"Gather", gather_to_one},
      {"Scatter", scatter_from_one},
      {"ReduceScatter", reduce_scatter_by(ReduceOp::SUM, at::kFloat)},
      {"ReduceScatterUnsigned", reduce_scatter_by(ReduceOp::MAX, at::kUInt16)},
      {"ReduceScatterBits", reduce_scatter_by(ReduceOp::BAND, at::kInt)},
      {"ReduceScatterUneven", reduce_scatter_uneven},
      {"AllToAll", exchange_lists},
      {"AllToAllRows", exchange_rows},
      {"Messages", pass_around},
  };
  return all;
}

class GroupOperationsOnDevices : public GroupWorld, public testing::WithParamInterface<std::string> {
 protected:
  static GroupBody compare() {
    return [act = acts().at(GetParam())](ProcessGroup& group, const FakeTorchDevice& device) {
      const Tensors wanted = act(group, at::kCPU), found = act(group, device.name());
      ASSERT_EQ(found.size(), wanted.size());
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        EXPECT_TRUE(found[i].is_cuda());
        EXPECT_TRUE(at::equal(found[i].cpu(), wanted[i])) << "rank " << group.getRank() << ", tensor " << i
                                                          << ": " << found[i].cpu() << " for " << wanted[i];
      }
    };
  }
};

TEST_P(GroupOperationsOnDevices, DoAsOnTheHost) { run_group(3, compare()); }
TEST_P(GroupOperationsOnDevices, DoSoByWayOfTheHost) { run_group_by_the_host(2, compare()); }

INSTANTIATE_TEST_SUITE_P(Each, GroupOperationsOnDevices, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const auto& [name, act] : acts()) names.push_back(name);
                           return names;
                         }()),
                         [](const auto& info) { return info.param; });

class GroupOnDevices : public GroupWorld {};

TEST_F(GroupOnDevices, GoesByNccl) {
  run_group(2, [this](ProcessGroup& group, const FakeTorchDevice& device) {
    Tensors tensors{at::ones({4}, device.name())};
    group.allreduce(tensors, {})->wait();
    EXPECT_EQ(tensors[0].cpu()[3].item<float>(), 2.0F);
    EXPECT_EQ(count(group.getRank(), "ncclAllReduce(4 float32 sum)"), 1);
  });
}

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "none";
}

TEST_F(GroupOnDevices, TensorsOfTwoPlacesAreRefusedWithTheRemedy) {
  run_group(2, [](ProcessGroup& group, const FakeTorchDevice& device) {
    const std::string place = device.name().str();
    Tensors host{at::ones({4})}, both{at::ones({4}, device.name()), at::ones({4})};
    TensorLists lists{both};
    EXPECT_THAT(error_of([&] { group.allreduce_coalesced(both, {}); }),
                HasSubstr("all_reduce_coalesced has a tensor on " + place +
                          " and one on cpu; give all on one device"));
    EXPECT_THAT(error_of([&] { group.allgather(lists, host, {}); }),
                HasSubstr("all_gather has a tensor on cpu and one on " + place));
    at::Tensor there = at::ones({8}, device.name());
    EXPECT_THAT(error_of([&] { group._allgather_base(there, host[0], {}); }),
                HasSubstr("all_gather_into_tensor has a tensor on cpu"));
    Tensors nowhere{at::ones({4}, at::kMeta)};
    EXPECT_THAT(error_of([&] { group.allreduce(nowhere, {}); }),
                HasSubstr("this one is on meta; copy it by cpu()"));
    group.allreduce(host, {})->wait();
    EXPECT_EQ(host[0][0].item<float>(), 2.0F) << "nothing has begun before";
  });
}

TEST_F(GroupOnDevices, ADifferentPlaceOnAnotherRankIsAMismatch) {
  run_group(2, [](ProcessGroup& group, const FakeTorchDevice& device) {
    Tensors tensors{at::ones({4}, group.getRank() == 0 ? device.name() : at::Device(at::kCPU))};
    const std::string words = error_of([&] { group.allreduce(tensors, {})->wait(); });
    EXPECT_THAT(words, HasSubstr("all_reduce number 1 of group 'world' on rank"));
    EXPECT_THAT(words, HasSubstr("cuda"));
  });
}

}  // namespace
}  // namespace rueda
