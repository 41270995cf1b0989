// SPDX-License-Identifier: Apache-2.0
#include "ops/nccl/member_exchange.h"

#include "core/engine/submissions/submission.h"

namespace rueda {

MemberExchange::MemberExchange(LinkBackend& link, const Plan& plan, const Bytes& own) : own_(own) {
  Submission submission;
  Request& request = submission.request;
  request.name = plan.tensors.front().name();
  request.operation = Operation::allgather;
  request.dtype = DataType::uint8;
  request.shape = {static_cast<std::int64_t>(own_.size())};
  submission.input = {own_.data(), DataType::uint8, request.shape};
  entries_.emplace_back(std::make_shared<HandleState>(nullptr, std::move(submission)));
  plan_.number = plan.number;
  plan_.process_set = plan.process_set;
  plan_.operation = Operation::allgather;
  plan_.dtype = DataType::uint8;
  plan_.chunk_bytes = plan.chunk_bytes;
  plan_.members = plan.members;
  plan_.tensors.push_back({0, true, entries_.front().shared_request});
  work_ = link.start(plan_, entries_);
}

Reader MemberExchange::received() const {
  const TensorView& output = entries_.front().handle->output;
  return Reader({static_cast<const std::byte*>(output.data), output.bytes()});
}

}  // namespace rueda
