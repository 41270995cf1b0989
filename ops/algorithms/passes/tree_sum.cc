// SPDX-License-Identifier: Apache-2.0
#include "ops/algorithms/passes/tree_sum.h"

namespace rueda {
namespace {

std::vector<Rank> children_of(const Group& group) {
  std::vector<Rank> children;
  for (Rank bit = 1; group.index + bit < group.size && (group.index & bit) == 0; bit *= 2)
    children.push_back(group.index + bit);
  return children;
}

}  // namespace

std::size_t TreeSum::room(const Group& group, std::size_t count) { return children_of(group).size() * count; }

TreeSum::TreeSum(const Route& route, double* numbers, std::size_t count, double* room)
    : channel_(route.channel), numbers_(numbers), count_(count), room_(room) {
  const Group& group = route.group;
  const std::size_t bytes = count * sizeof(double);
  auto* own = reinterpret_cast<std::byte*>(numbers);
  auto* sent = reinterpret_cast<std::byte*>(room);
  for (Rank child : children_of(group)) {
    const auto offset = static_cast<std::int64_t>(from_children_.size() * bytes);
    from_children_.emplace_back(*channel_, group.rank_at(child), at(sent, offset), bytes, route.chunk_bytes);
    to_children_.emplace_back(*channel_, group.rank_at(child), own, bytes, route.chunk_bytes);
  }
  if (group.index == 0) return;
  const Rank parent = group.rank_at(group.index & (group.index - 1));
  up_.emplace(*channel_, parent, own, bytes, route.chunk_bytes);
  down_.emplace(*channel_, parent, own, bytes, route.chunk_bytes);
}

Work::Step TreeSum::step() {
  bool moved = add_children();
  if (added_ < from_children_.size()) return moved ? Work::Step::again : Work::Step::waiting;
  if (up_ && !up_->done()) {
    moved |= up_->advance();
    return moved ? Work::Step::again : Work::Step::waiting;
  }
  moved |= down_ && down_->advance();
  const std::size_t here = down_ ? down_->done_bytes() : count_ * sizeof(double);
  bool done = !down_ || down_->done();
  for (SendStream& child : to_children_) {
    moved |= child.advance(here);
    done &= child.done();
  }
  if (done) return Work::Step::done;
  return moved ? Work::Step::again : Work::Step::waiting;
}

// Those that are there, in their order.
bool TreeSum::add_children() {
  bool moved = false;
  for (std::size_t child = added_; child < from_children_.size(); ++child) {
    moved |= from_children_[child].advance();
    if (child > added_ || !from_children_[child].done()) continue;
    if (!channel_->abandoned()) {
      for (std::size_t i = 0; i < count_; ++i) numbers_[i] += room_[child * count_ + i];
    }
    ++added_;
    moved = true;
  }
  return moved;
}

}  // namespace rueda
