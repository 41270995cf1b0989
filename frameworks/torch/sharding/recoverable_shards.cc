// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/sharding/recoverable_shards.h"

#include <memory>

namespace rueda {
namespace {

DividedParts::Groups whole_groups(const DividedParts::Groups& groups) {
  DividedParts::Groups whole;
  for (const auto& group : groups) whole.emplace_back(group.params());
  return whole;
}

}  // namespace

RecoverableShards::RecoverableShards(const Groups& groups, Rank copies, bool alone, Runtime& runtime)
    : RecoverableParts(
          std::make_unique<ParameterShards>(groups, ParameterShards::Division{.alone = alone}, runtime),
          copies, alone,
          [given = whole_groups(groups)](const DividedParts&, Rank copies_of_each, Runtime& of_ranks) {
            return std::make_unique<ParameterShards>(
                given, ParameterShards::Division{.copies = copies_of_each}, of_ranks);
          }) {}

}  // namespace rueda
