// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/slow_cards.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "core/base/median.h"

namespace rueda {
namespace {

constexpr double kLeastRate = 100e3;  // bytes a second of the wall clock
constexpr double kSimilar = 0.5, kSlow = 0.5;

struct Sender {
  std::size_t host = 0;
  std::string card;
  double speed = 0;
  double rate = 0;  // over all of the time
};

std::vector<Sender> senders_of(const std::vector<HostView>& hosts) {
  std::vector<Sender> senders;
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    const HostView& about = hosts[host];
    const double seconds = static_cast<double>(about.load.now_ns - about.before.now_ns) * 1e-9;
    if (!about.is_heard || seconds <= 0) continue;
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

std::optional<SlowCard> slow_card(const std::vector<HostView>& hosts) {
  const std::vector<Sender> senders = senders_of(hosts);
  const auto slowest = std::ranges::min_element(senders, {}, &Sender::speed);
  if (slowest == senders.end()) return std::nullopt;
  std::vector<double> speeds, rates;
  for (const Sender& each : senders) {
    if (each.host == slowest->host) continue;
    speeds.push_back(each.speed);
    rates.push_back(each.rate);
  }
  if (speeds.empty()) return std::nullopt;
  const double others = median_of(speeds);
  if (slowest->speed >= kSlow * others || slowest->rate < kSimilar * median_of(rates)) return std::nullopt;
  return SlowCard{hosts[slowest->host].name, slowest->card, slowest->speed, others};
}

std::string in_words(const SlowCard& card) {
  return fmt::format("card {} of {} sends {}, the cards of other hosts {}", card.card, card.host,
                     megabytes(card.speed), megabytes(card.speed_of_others));
}

}  // namespace rueda
