// SPDX-License-Identifier: Apache-2.0
#include "ops/algorithms/tree_broadcast.h"

#include <optional>
#include <vector>

#include "ops/staging.h"
#include "ops/stream.h"

namespace rueda {
namespace {

// Purpose: one rank's part. With places counted from the root, the parent of v is v without its lowest set
// bit, and its children are v + 2^i for every 2^i below that bit.
class TreeBroadcast final : public Work {
 public:
  TreeBroadcast(const Route& route, Rank root, Entry& entry) : output_(entry.submission.output) {
    const ConstTensorView& input = entry.submission.input;
    const std::size_t bytes = input.bytes();
    const Group& group = route.group;
    const Rank first = group.members->index_of(root);
    const Rank place = (group.place - first + group.size) % group.size;
    if (place == 0) {
      // The root reads its input once; what it sends is its output.
      if (output_.data() != input.data) packing_ = kernels::Packing::pack(output_.data(), input);
    } else {
      const Rank parent = place & (place - 1);
      from_.emplace(*route.link, group.rank_at((parent + first) % group.size),
                    MutableBytes{output_.data(), bytes}, route.tag, route.chunk_bytes);
    }
    for (Rank bit = 1; place + bit < group.size && (place & bit) == 0; bit *= 2) {
      to_.emplace_back(*route.link, group.rank_at((place + bit + first) % group.size),
                       ConstBytes{output_.data(), bytes}, route.tag, route.chunk_bytes);
    }
    bytes_ = bytes;
  }

  Step step() override {
    if (packing_.advance() > 0) return Step::again;
    bool moved = from_ && from_->advance();
    const std::size_t here = from_ ? from_->done_bytes() : bytes_;
    bool done = here == bytes_;
    for (Stream<ConstBytes>& child : to_) {
      moved |= child.advance(here);
      done &= child.done();
    }
    if (!done) return moved ? Step::again : Step::waiting;
    return output_.advance() ? Step::again : Step::done;
  }

  std::string_view phase() const override {
    return from_ && !from_->done() ? "receiving a broadcast" : "sending a broadcast";
  }

 private:
  ContiguousOutput output_;
  kernels::Packing packing_;  // of the root's input
  std::optional<Stream<MutableBytes>> from_;
  std::vector<Stream<ConstBytes>> to_;
  std::size_t bytes_ = 0;
};

}  // namespace

std::unique_ptr<Work> tree_broadcast(const Route& route, Rank root, Entry& entry) {
  return std::make_unique<TreeBroadcast>(route, root, entry);
}

}  // namespace rueda
