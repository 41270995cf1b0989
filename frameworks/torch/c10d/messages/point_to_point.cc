// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/messages/point_to_point.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "frameworks/torch/c10d/operations/tensor_bytes.h"

namespace rueda {
namespace {

Submission message_of(const at::Tensor& tensor) {
  Submission message = moving(Operation::broadcast, tensor, tensor);
  message.into_output = false;
  return message;
}

}  // namespace

PendingOperation PointToPoint::send(const at::Tensor& tensor, int to, int tag, Duration start_timeout) {
  return pair_with(to, start_timeout).send(message_of(tensor), tag);
}

PendingOperation PointToPoint::receive(const at::Tensor& tensor, int from, int tag, Duration start_timeout) {
  return pair_with(from, start_timeout).receive(message_of(tensor), tag);
}

RankPair& PointToPoint::pair_with(int peer, Duration start_timeout) {
  TORCH_CHECK_VALUE(peer >= 0 && peer < size_ && peer != rank_, "rueda: rank ", rank_,
                    " cannot exchange messages with rank ", peer, " in a group of ", size_);
  const std::lock_guard lock(mutex_);
  std::unique_ptr<RankPair>& pair = pairs_[peer];
  if (!pair) {
    const auto [lower, higher] = std::minmax(rank_, peer);
    auto store = c10::make_intrusive<c10d::PrefixStore>(fmt::format("pair-{}-{}", lower, higher), store_);
    pair = std::make_unique<RankPair>(std::move(store), rank_, peer, start_timeout);
  }
  return *pair;
}

void PointToPoint::end() {
  const std::lock_guard lock(mutex_);
  for (auto& [peer, pair] : pairs_) pair->end();
}

bool PointToPoint::over_within(Duration longest) {
  const std::lock_guard lock(mutex_);
  const Time until = clock_now() + longest;
  return std::ranges::all_of(pairs_, [&](const auto& each) {
    return each.second->over_within(std::max(until - clock_now(), Duration::zero()));
  });
}

void PointToPoint::abort() {
  const std::lock_guard lock(mutex_);
  for (auto& [peer, pair] : pairs_) pair->abort();
}

}  // namespace rueda
