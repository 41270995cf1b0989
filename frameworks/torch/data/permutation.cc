// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/data/permutation.h"

#include <numeric>
#include <utility>

namespace rueda {
namespace {

// SplitMix64: numbers that are the same on every machine, unlike those of the standard library's
// distributions.
class Numbers {
 public:
  Numbers(std::uint64_t seed, std::uint64_t epoch) : state_(seed) { state_ = next() + epoch; }

  // Below `bound`, of which there are so few that the remainder's bias cannot be seen.
  std::size_t below(std::size_t bound) { return next() % bound; }

 private:
  std::uint64_t next() {
    std::uint64_t mixed = (state_ += 0x9e3779b97f4a7c15);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
  }

  std::uint64_t state_;
};

}  // namespace

std::vector<std::size_t> permutation(std::size_t size, std::uint64_t seed, std::uint64_t epoch) {
  Numbers numbers(seed, epoch);
  std::vector<std::size_t> order(size);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = size; i > 1; --i) std::swap(order[i - 1], order[numbers.below(i)]);
  return order;
}

}  // namespace rueda
