// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/slow_cards.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>

#include "core/base/median.h"

namespace rueda {
namespace {

constexpr double kLeastRate = 100e3;  // bytes a second of the wall clock
constexpr double kSimilar = 0.5, kSlow = 0.4;
constexpr double kSilent = 3;                 // seconds
constexpr double kSlowFor = 3, kGoneFor = 5;  // seconds

struct Sender {
  std::size_t host = 0;
  std::string card;
  double speed = 0;
  double rate = 0;  // over all of the time
};

std::vector<Sender> senders_of(const std::vector<HostView>& hosts, double now) {
  std::vector<Sender> senders;
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    const HostView& about = hosts[host];
    const double seconds = static_cast<double>(about.load.now_ns - about.before.now_ns) * 1e-9;
    if (!about.is_heard || seconds <= 0 || now > about.heard_at + kSilent) continue;
    for (const agents::HostLoad::Card& card : about.load.cards) {
      const auto before = std::ranges::find(about.before.cards, card.name, &agents::HostLoad::Card::name);
      if (before == about.before.cards.end() || card.sent_bytes < before->sent_bytes) continue;
      const double rate = static_cast<double>(card.sent_bytes - before->sent_bytes) / seconds;
      if (card.speed > 0 && rate >= kLeastRate) senders.push_back({host, card.name, card.speed, rate});
    }
  }
  return senders;
}

std::string megabytes(double speed) { return fmt::format("{:.3g} MB/s", speed * 1e-6); }

}  // namespace

std::optional<SlowCards> slow_cards(const std::vector<HostView>& hosts, double now) {
  std::vector<Sender> senders = senders_of(hosts, now);
  if (senders.size() < 2) return std::nullopt;
  std::ranges::sort(senders, {}, &Sender::speed);
  const double fastest = senders.back().speed;
  const auto first_fast =
      std::ranges::find_if(senders, [&](const Sender& each) { return each.speed >= kSlow * fastest; });
  const auto slow = static_cast<std::size_t>(first_fast - senders.begin());
  if (slow == 0 || slow > 2 || (slow == 2 && senders.size() < 3)) return std::nullopt;
  std::vector<double> rates;
  for (const Sender& each : senders) rates.push_back(each.rate);
  if (senders.front().rate < kSimilar * median_of(rates)) return std::nullopt;
  SlowCards cards{.names = {}, .speed = senders.front().speed, .speed_of_others = fastest};
  for (std::size_t i = 0; i < slow; ++i)
    cards.names.insert(fmt::format("{} of {}", senders[i].card, hosts[senders[i].host].name));
  return cards;
}

std::string in_words(const SlowCards& cards) {
  const std::string speeds = fmt::format("{}, the cards of other hosts {}", megabytes(cards.speed),
                                         megabytes(cards.speed_of_others));
  if (cards.names.size() == 1) return fmt::format("card {} sends {}", *cards.names.begin(), speeds);
  return fmt::format("cards {} send {}: one of both may hold the other up", fmt::join(cards.names, " and "),
                     speeds);
}

const LastingSlowCards::Spell* LastingSlowCards::oldest() const {
  const Spell* oldest = nullptr;
  for (const auto& [names, spell] : spells_) {
    const bool lasts = spell.last >= spell.since + kSlowFor && 2 * spell.seen > spell.looks;
    if (lasts && (oldest == nullptr || spell.since < oldest->since)) oldest = &spell;
  }
  return oldest;
}

std::string LastingSlowCards::look(const std::optional<SlowCards>& slow, double now) {
  if (slow) {
    Spell& spell =
        spells_.try_emplace(slow->names, Spell{.since = now, .last = now, .cards = {}}).first->second;
    spell.last = now;
    spell.cards = *slow;
    ++spell.seen;
  }
  for (auto& [names, spell] : spells_) ++spell.looks;
  std::erase_if(spells_, [&](const auto& each) { return now > each.second.last + kGoneFor; });
  const Spell* lasting = oldest();
  if (lasting == nullptr) {
    told_.clear();
    return "";
  }
  if (std::ranges::includes(told_, lasting->cards.names)) return "";
  told_.insert(lasting->cards.names.begin(), lasting->cards.names.end());
  return in_words(lasting->cards);
}

std::string LastingSlowCards::words() const {
  const Spell* lasting = oldest();
  return lasting == nullptr ? "" : in_words(lasting->cards);
}

}  // namespace rueda
