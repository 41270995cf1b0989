// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/stragglers.h"

#include <algorithm>
#include <cmath>

namespace rueda {
namespace {

constexpr int kPunctual = 20;
constexpr double kSameSize = 1.5, kOtherSize = 2;
constexpr double kSameMoment = 3;  // steps

bool is_similar(double one, double other, double factor) {
  return one <= factor * other && other <= factor * one;
}

bool agree(const LateRank& one, const LateRank& other) {
  const auto step = [](const LateRank& late) { return static_cast<double>(*late.since_step); };
  return std::abs(step(one) - step(other)) <= kSameMoment &&
         is_similar(one.late_ms, other.late_ms, kSameSize);
}

}  // namespace

std::vector<Stragglers::News> Stragglers::hear(const Lateness& lateness) {
  std::vector<News> news;
  for (auto& [rank, spell] : spells_) ++spell.punctual;
  for (const LateRank& late : lateness.ranks) {
    if (!late.since_step) continue;
    const auto [found, fresh] = spells_.try_emplace(late.rank, Spell{.before = late, .told_ms = {}});
    Spell& spell = found->second;
    const bool is_stable = !fresh && spell.punctual == 1 && agree(spell.before, late);
    spell.punctual = 0;
    spell.before = late;
    const bool is_known = spell.told_ms && is_similar(*spell.told_ms, late.late_ms, kOtherSize);
    if (!is_stable || is_known) continue;
    news.push_back({late, spell.told_ms.has_value()});
    spell.told_ms = late.late_ms;
  }
  std::erase_if(
      spells_, [](const auto& each) { return each.second.punctual > (each.second.told_ms ? kPunctual : 0); });
  return news;
}

}  // namespace rueda
