// SPDX-License-Identifier: Apache-2.0
#include "tests/support/worlds/message_samples.h"

namespace rueda {

Request some_request(const std::string& name) {
  return {name, Operation::allreduce, DataType::bfloat16, {3, 4}, ReduceOp::max, 0.5,
          2.0,  ReductionOrder::any,  Compression::none,  1.0,    false,         1};
}

static SharedRequest shared(const std::string& name) {
  return std::make_shared<const Request>(some_request(name));
}

// Of which a share travels.
static SharedRequest thin_request() {
  Request thin = some_request("thin");
  thin.dtype = DataType::float32;
  thin.reduce_op = ReduceOp::sum;
  thin.compression = Compression::topk;
  thin.compression_share = 0.25;
  return std::make_shared<const Request>(thin);
}

static Plan short_plan() {
  Plan plan;
  plan.number = 45;
  plan.area = 1;
  plan.chunk_bytes = 64;
  plan.tensors = {{12, false, nullptr, 0}};
  return plan;
}

std::vector<Message> message_samples() {
  Plan plan;
  plan.number = 42;
  plan.chunk_bytes = 64;
  plan.result = -5;
  plan.evicted = {7, 300};
  plan.tensors = {{9, true, shared("a"), 0}, {10, false, nullptr, 0}, {0, true, shared("b"), 0}};
  Plan measured;
  measured.number = 43;
  measured.chunk_bytes = 64;
  measured.pairing = Pairing::halving;
  measured.joined = RankSet(2, 5);
  measured.joined.add(7, 8);
  measured.tensors = {{11, false, nullptr, 0}};
  Plan error;
  error.number = 44;
  error.status = Status::mismatch("differ");
  error.tensors = {{0, true, shared("c"), 0}};
  RankSet ranks(0, 3);
  ranks.add(7, 9);
  IdSet ids;
  for (CacheId id : {1, 2, 63, 64, 1000}) ids.add(id);
  Request grouped = some_request("g");
  grouped.others = {some_request("g.1"), some_request("g.2")};
  for (Request& other : grouped.others) other.follows = "g";
  grouped.members = ranks;
  grouped.reduction_order = ReductionOrder::fixed;
  grouped.compression = Compression::fp16;
  grouped.measure = true;
  grouped.device = DeviceKind::cuda;
  grouped.capture = 3;
  grouped.elsewhere = true;
  grouped.signature = 0x123456789abcdef0;
  return {
      Hello{{{0, "0.1.0", "host", 4711, {"A=1", "B=2"}, "card"},
             {1, "0.1.0", "other", 1, {}, "", "[0-1]", 7, "relay", 3}}},
      Referral{5, "relay"},
      Welcome{{}, {"x", "y"}, {1, 2}, {"card", ""}, {-1, 3}, 7},
      Welcome{Status::peer_lost("gone"), {}, {}, {}},
      Report{41,
             ids,
             {{{shared("a"), ranks}}, {{shared("b"), RankSet::of(0)}, {shared("b"), RankSet::of(1)}}},
             ranks,
             RankSet::of(8)},
      Orders{{plan, measured, short_plan(), error}, true},
      Failure{Status::backend_error("broken")},
      Stall{std::make_shared<const Request>(grouped)},
      Stall{thin_request()},
      Stall{thin_request(), 17},
      Inquiry{4, 0.75, {{{0, "a"}}, {{3, "b"}, 17}}},
      Answer{4, {{ranks, RankSet::of(5), RankSet::of(6), {{5, "is late"}}, true}, {}}},
      Missing{{{0, "a"}, {3, "b"}}, "not submitted by: rank 5"},
      Abort{std::uint64_t{1} << 40, Status::backend_error("no memory")},
  };
}

}  // namespace rueda
