// SPDX-License-Identifier: Apache-2.0
#include "ops/algorithms/passes/ordered_pass.h"

#include <algorithm>
#include <array>
#include <utility>

#include "ops/schedules/reduction_tree.h"

namespace rueda {
namespace {

// As large as a chunk, unless the scratch for many ranks would be too large.
std::int64_t piece_bytes(std::int64_t chunk, std::int64_t in_flight) {
  constexpr std::int64_t kScratchChunks = 16, kLeast = 4096;
  const std::int64_t share = kScratchChunks * chunk / std::max<std::int64_t>(in_flight, 1);
  return std::min(chunk, std::max(kLeast, share));
}

}  // namespace

OrderedPass::OrderedPass(Job job)
    : job_(std::move(job)),
      value_size_(static_cast<std::int64_t>(size_of(job_.reduction.dtype))),
      others_(job_.route.group.size - 1),
      piece_elements_(
          std::max<std::int64_t>(1, piece_bytes(job_.route.chunk_bytes, kDepth * others_) / value_size_)) {
  std::int64_t longest = 0;
  for (std::size_t i = 1; i < job_.bounds.size(); ++i)
    longest = std::max(longest, job_.bounds[i] - job_.bounds[i - 1]);
  rounds_ = (longest + piece_elements_ - 1) / piece_elements_;
}

Work::Step OrderedPass::step() {
  if (scratch_.size() == 0 && rounds_ > 0 && others_ > 0 && !job_.route.channel->abandoned()) {
    const std::int64_t slots = std::min(kDepth, rounds_) * others_;
    scratch_ = job_.route.memory->get("values of other ranks",
                                      static_cast<std::size_t>(slots * piece_elements_ * value_size_));
  }
  const bool received = receive(), sent = send();
  if (combined_ == rounds_ && sent_ == rounds_) return Step::done;
  return received || sent ? Step::again : Step::waiting;
}

bool OrderedPass::Round::finished() {
  while (over < messages.size() && messages[over].done()) ++over;
  return over == messages.size();
}

OrderedPass::Piece OrderedPass::piece(Rank segment, std::int64_t round) const {
  const std::int64_t end = job_.bounds[segment + 1];
  const std::int64_t begin = std::min(end, job_.bounds[segment] + round * piece_elements_);
  return {begin, std::min(piece_elements_, end - begin)};
}

bool OrderedPass::receive() {
  const Group& group = job_.route.group;
  bool moved = false;
  while (combined_ + std::ssize(receiving_) < rounds_ && std::ssize(receiving_) < kDepth) {
    const std::int64_t round = combined_ + std::ssize(receiving_);
    const auto bytes = static_cast<std::size_t>(piece(group.index, round).count * value_size_);
    Round& messages = receiving_.emplace_back();
    for (Rank distance = 1; distance < group.size; ++distance) {
      const Rank peer = group.rank_at(group.neighbour(-distance));
      messages.messages.push_back(job_.route.channel->receive(peer, {slot(round, distance), bytes}));
    }
    moved = true;
  }
  while (!receiving_.empty() && receiving_.front().finished()) {
    if (!job_.route.channel->abandoned()) combine(combined_);
    receiving_.pop_front();
    ++combined_;
    moved = true;
  }
  return moved;
}

bool OrderedPass::send() {
  const Group& group = job_.route.group;
  bool moved = false;
  while (sent_ + std::ssize(sending_) < rounds_ && std::ssize(sending_) < kDepth) {
    Round& messages = sending_.emplace_back();
    const std::int64_t round = sent_ + std::ssize(sending_) - 1;
    for (Rank distance = 1; distance < group.size; ++distance) {
      const Rank index = group.neighbour(distance);
      const Piece part = piece(index, round);
      messages.messages.push_back(job_.route.channel->send(
          group.rank_at(index),
          {at(job_.input, part.begin * value_size_), static_cast<std::size_t>(part.count * value_size_)}));
    }
    moved = true;
  }
  while (!sending_.empty() && sending_.front().finished()) {
    sending_.pop_front();
    ++sent_;
    moved = true;
  }
  return moved;
}

// Combines the pieces that came in a round with this rank's own piece.
void OrderedPass::combine(std::int64_t round) {
  const Group& group = job_.route.group;
  const ScaledReduction& reduction = job_.reduction;
  const ReductionTree tree(reduction);
  const kernels::Accumulation& accumulation = reduction.accumulation();
  const Piece part = piece(group.index, round);
  std::vector<const std::byte*> copies(static_cast<std::size_t>(group.size));
  copies[group.index] = job_.input + part.begin * value_size_;
  for (Rank distance = 1; distance < group.size; ++distance)
    copies[group.neighbour(-distance)] = slot(round, distance);
  std::byte* output = job_.output + (part.begin - job_.bounds[group.index]) * value_size_;
  alignas(64) std::array<std::byte, ReductionTree::kBlockBytes> sum;
  const auto block = static_cast<std::int64_t>(ReductionTree::kBlockBytes / accumulation.sum_size);
  for (std::int64_t done = 0; done < part.count; done += block) {
    const auto count = static_cast<std::size_t>(std::min(block, part.count - done));
    tree.combine(sum.data(), copies, static_cast<std::size_t>(done * value_size_), count);
    std::byte* complete = output + done * value_size_;
    accumulation.values->store(complete, sum.data(), count, reduction.postscale);
    if (job_.squares) job_.squares->add_fused(part.begin + done, complete, static_cast<std::int64_t>(count));
  }
}

}  // namespace rueda
