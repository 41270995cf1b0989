// SPDX-License-Identifier: Apache-2.0
#include "ops/algorithms/tree_broadcast.h"

#include <optional>

#include "ops/algorithms/passes/relay.h"
#include "ops/buffers/contiguous_copy.h"

namespace rueda {
namespace {

// Purpose: one rank's part. With indices counted from the root, the parent of v is v without its lowest set
// bit, and its children are v + 2^i for every 2^i below that bit.
class TreeBroadcast final : public Algorithm {
 public:
  TreeBroadcast(const Route& route, Rank root, Entry& entry)
      : route_(route),
        input_(entry.submission().input),
        output_(entry.submission().output, *route.memory),
        bytes_(input_.bytes()),
        first_(route.group.members->index_of(root)) {}

  Step step() override {
    if (!relay_) begin();
    if (!abandoned() && packing_.advance() > 0) return Step::again;
    if (const Step step = relay_->step(); step != Step::done) return step;
    return !abandoned() && output_.advance() ? Step::again : Step::done;
  }

  std::string_view phase() const override { return relay_ ? relay_->phase() : "sending a broadcast"; }

 private:
  bool abandoned() const { return route_.channel->abandoned(); }

  void begin() {
    if (!abandoned()) output_.prepare();
    relay_.emplace(*route_.channel, output_.data(), bytes_, route_.chunk_bytes);
    const Group& group = route_.group;
    const Rank index = (group.index - first_ + group.size) % group.size;
    if (index == 0) {
      // The root reads its input once; what it sends is its output.
      if (!abandoned() && output_.data() != input_.data)
        packing_ = kernels::Packing::pack(output_.data(), input_);
    } else {
      const Rank parent = index & (index - 1);
      relay_->receive_from(group.rank_at((parent + first_) % group.size));
    }
    for (Rank bit = 1; index + bit < group.size && (index & bit) == 0; bit *= 2)
      relay_->send_to(group.rank_at((index + bit + first_) % group.size));
  }

  Route route_;
  ConstTensorView input_;
  ContiguousOutput output_;
  std::size_t bytes_;
  Rank first_;                // the root's index
  kernels::Packing packing_;  // of the root's input
  std::optional<Relay> relay_;
};

}  // namespace

std::unique_ptr<Algorithm> tree_broadcast(const Route& route, Rank root, Entry& entry) {
  return std::make_unique<TreeBroadcast>(route, root, entry);
}

}  // namespace rueda
