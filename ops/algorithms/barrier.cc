// SPDX-License-Identifier: Apache-2.0
#include "ops/algorithms/barrier.h"

#include <array>

namespace rueda {
namespace {

class Barrier final : public Algorithm {
 public:
  explicit Barrier(const Route& route) : route_(route) {}

  Step step() override {
    if (!hear_.done() || !tell_.done()) return Step::waiting;
    if (distance_ >= route_.group.size) return Step::done;
    const Group& group = route_.group;
    const Rank from = group.rank_at(group.neighbour(-distance_)),
               to = group.rank_at(group.neighbour(distance_));
    hear_ = route_.channel->receive(from, {&heard_, 1});
    tell_ = route_.channel->send(to, {&told_, 1});
    distance_ *= 2;
    return Step::again;
  }

  std::string_view phase() const override { return "waiting at a barrier"; }

 private:
  Route route_;
  Rank distance_ = 1;
  std::byte told_{1};
  std::byte heard_{0};
  Transfer tell_;
  Transfer hear_;
};

}  // namespace

std::unique_ptr<Algorithm> barrier(const Route& route) { return std::make_unique<Barrier>(route); }

}  // namespace rueda
