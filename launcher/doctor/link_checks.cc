// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/link_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <utility>

namespace rueda {
namespace {

using State = Finding::State;

constexpr double kMuchSlower = 0.5;            // than the others
constexpr double kOfItsCard = 0.25;            // of the speed that its driver names
constexpr int kMostMegabits = 10'000;          // of a card: one connection may not fill a faster one
constexpr std::uint64_t kMuchLonger = 4;       // times the others' round trip
constexpr std::uint64_t kLongest = 1'000'000;  // nanoseconds beyond the others' round trip

// One connection, and whether it is bad.
struct Judged {
  int from = 0;
  int to = 0;
  int card = 0;
  int peer_card = 0;
  bool is_bad = false;
};

// Hosts whose cards of one number are to blame for bad connections, and one of these.
struct Blamed {
  std::vector<int> hosts;
  int card = 0;
  std::size_t example = 0;
};

// The connections of one card.
struct CardRecord {
  std::set<int> partners;
  bool all_bad = true;
};

// A card is to blame when it has several partners, and all connections are bad. If all of that number are bad
// on all hosts, these are to blame together. Otherwise it is both ends.
std::vector<Blamed> blame(const std::vector<Judged>& all) {
  std::map<int, bool> bad_number;
  std::map<std::pair<int, int>, CardRecord> of_card;
  for (const Judged& each : all) {
    const auto [found, is_new] = bad_number.emplace(each.card, true);
    found->second = found->second && each.is_bad;
    for (const auto& [host, card] : {std::pair(each.from, each.card), std::pair(each.to, each.peer_card)}) {
      CardRecord& record = of_card[{host, card}];
      record.partners.insert(host == each.from ? each.to : each.from);
      record.all_bad = record.all_bad && each.is_bad;
    }
  }
  std::vector<Blamed> blamed;
  const auto add = [&](std::set<int> hosts, int card, std::size_t example) {
    const std::vector<int> list(hosts.begin(), hosts.end());
    const bool known = std::ranges::any_of(
        blamed, [&](const Blamed& each) { return each.hosts == list && each.card == card; });
    if (!known) blamed.push_back({list, card, example});
  };
  const auto is_dead = [&](int host, int card) {
    const CardRecord& record = of_card.at({host, card});
    return record.partners.size() > 1 && record.all_bad;
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto [from, to, card, peer_card, is_bad] = all[i];
    if (!is_bad) continue;
    if (bad_number.at(card)) {
      std::set<int> hosts;
      for (const Judged& each : all)
        if (each.card == card) hosts.insert({each.from, each.to});
      add(hosts, card, i);
      continue;
    }
    const bool from_is_dead = is_dead(from, card), to_is_dead = is_dead(to, peer_card);
    if (from_is_dead) add({from}, card, i);
    if (to_is_dead) add({to}, peer_card, i);
    if (!from_is_dead && !to_is_dead) add({from, to}, card, i);
  }
  return blamed;
}

std::vector<std::string> names_of(const Examination& examination, const std::vector<int>& hosts) {
  std::vector<std::string> names;
  for (const int host : hosts) names.push_back(examination.hosts[static_cast<std::size_t>(host)].name);
  return names;
}

std::vector<std::string> names_of_answers(const Examination& examination) {
  std::vector<std::string> names;
  for (const ExaminedHost& host : examination.hosts)
    if (host.facts) names.push_back(host.name);
  return names;
}

std::string gigabits(std::uint64_t bytes) {
  return fmt::format("{:.3g} Gbit/s", 8e-9 * static_cast<double>(bytes));
}
std::string milliseconds(std::uint64_t nanoseconds) {
  return fmt::format("{:.3g} ms", 1e-6 * static_cast<double>(nanoseconds));
}

// "eth0 of h0 to eth0 of h1".
template <class Link>
std::string ends_of(const Examination& examination, const Link& link) {
  const auto end = [&](int host, int card) {
    return fmt::format("{} of {}", card_of(examination, host, card),
                       examination.hosts[static_cast<std::size_t>(host)].name);
  };
  return fmt::format("{} to {}", end(link.from, link.card), end(link.to, link.peer_card));
}

// Null where the host has not told.
const agents::CardFacts* facts_of(const Examination& examination, int host, int card) {
  const auto& facts = examination.hosts[static_cast<std::size_t>(host)].facts;
  const auto number = static_cast<std::size_t>(card);
  return facts && number < facts->network.cards.size() ? &facts->network.cards[number] : nullptr;
}

std::vector<MeasuredLink> good_links(const Examination& examination) {
  std::vector<MeasuredLink> good;
  for (const MeasuredLink& link : examination.links)
    if (link.problem.empty()) good.push_back(link);
  return good;
}

std::uint64_t rate_of(const MeasuredLink& link) { return std::min(link.sent, link.received); }

// The middle one; of two, the greater or the smaller.
std::uint64_t middle(std::vector<std::uint64_t> values, bool greater) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[(values.size() - (greater ? 0 : 1)) / 2];
}

// Megabits a second of the slower of both cards; 0: unknown.
int megabits_of(const Examination& examination, const MeasuredLink& link) {
  int least = 0;
  for (const auto& [host, card] : {std::pair(link.from, link.card), std::pair(link.to, link.peer_card)}) {
    const agents::CardFacts* facts = facts_of(examination, host, card);
    if (facts == nullptr || facts->megabits <= 0) continue;
    least = least == 0 ? facts->megabits : std::min(least, facts->megabits);
  }
  return least;
}

// Bytes a second that one connection should carry; 0: unknown.
std::uint64_t speed_of(const Examination& examination, const MeasuredLink& link) {
  return static_cast<std::uint64_t>(std::min(megabits_of(examination, link), kMostMegabits)) * 125'000;
}

// A bridge of containers may have one address on all hosts, and leads to none of them.
bool is_on_both(const Examination& examination, const TriedLink& link) {
  const auto has = [&](int host, const agents::CardFacts* card) {
    const auto& facts = examination.hosts[static_cast<std::size_t>(host)].facts;
    return card != nullptr && facts &&
           std::ranges::find(facts->network.cards, card->address, &agents::CardFacts::address) !=
               facts->network.cards.end();
  };
  return has(link.to, facts_of(examination, link.from, link.card)) ||
         has(link.from, facts_of(examination, link.to, link.peer_card));
}

// The names of cards over which each tried connection came about.
std::vector<std::string> good_cards(const Examination& examination) {
  std::vector<std::string> names, bad;
  const auto add = [](std::vector<std::string>& list, const std::string& name) {
    if (std::ranges::find(list, name) == list.end()) list.push_back(name);
  };
  for (const TriedLink& each : examination.tried)
    add(each.problem.empty() ? names : bad, card_of(examination, each.from, each.card));
  std::erase_if(names, [&](const std::string& name) { return std::ranges::find(bad, name) != bad.end(); });
  return names;
}

std::string remedy_of_connection(const Examination& examination, const std::string& card, bool is_lost) {
  const std::vector<std::string> good = good_cards(examination);
  if (is_lost || good.empty())
    return fmt::format("Open all TCP ports between these hosts, and look at `ip link show {}`.", card);
  return fmt::format("Look at its cable and `ip link show {}`, or leave it out: export RUEDA_RAILS={}.", card,
                     fmt::join(good, ","));
}

// Of connections over cards of the same speed.
std::uint64_t usual_rate(const Examination& examination, const MeasuredLink& link) {
  std::vector<std::uint64_t> rates;
  for (const MeasuredLink& each : good_links(examination))
    if (megabits_of(examination, each) == megabits_of(examination, link)) rates.push_back(rate_of(each));
  return middle(rates, true);
}

// Slower than others, and than the cards where their speed is known.
bool is_much_slower(const Examination& examination, const MeasuredLink& link) {
  const auto is_below = [&](std::uint64_t other) {
    return static_cast<double>(rate_of(link)) < kMuchSlower * static_cast<double>(other);
  };
  const std::uint64_t speed = speed_of(examination, link);
  return is_below(usual_rate(examination, link)) && (speed == 0 || is_below(speed));
}

// "`ping -M do -s 1472 HOST` tells if packets of 1500 bytes come through".
std::string try_of(int mtu) {
  constexpr int kHeaders = 28;  // of IPv4 and ICMP
  return fmt::format("`ping -M do -s {} HOST` tells if packets of {} bytes come through", mtu - kHeaders,
                     mtu);
}

std::string remedy_of_loss(const Examination& examination, const MeasuredLink& link) {
  const agents::CardFacts* card = facts_of(examination, link.from, link.card);
  const std::string more = card == nullptr || card->mtu == 0 ? "" : fmt::format("; {}", try_of(card->mtu));
  return fmt::format("Look for lost packets: `ip -s link`{}.", more);
}

// `against`: what the rate is compared with, in words.
std::vector<Finding> slow_links(const Examination& examination, const std::string& check,
                                const std::function<bool(const MeasuredLink&)>& is_slow,
                                const std::function<std::string(const MeasuredLink&)>& against) {
  const std::vector<MeasuredLink> links = good_links(examination);
  std::vector<Judged> all;
  for (const MeasuredLink& link : links)
    all.push_back({link.from, link.to, link.card, link.peer_card, is_slow(link)});
  std::vector<Finding> findings;
  for (const Blamed& each : blame(all)) {
    const MeasuredLink& link = links[each.example];
    const std::string card = card_of(examination, each.hosts.front(), each.card);
    findings.push_back(
        {State::warning, check, names_of(examination, each.hosts),
         fmt::format("{} carries {} there and {} back; {}.", ends_of(examination, link), gigabits(link.sent),
                     gigabits(link.received), against(link)),
         fmt::format("Look at `ethtool {}`, `tc qdisc show dev {}` and other traffic.", card, card)});
  }
  return findings;
}

}  // namespace

std::string card_of(const Examination& examination, int host, int card) {
  const agents::CardFacts* facts = facts_of(examination, host, card);
  return facts == nullptr ? fmt::format("card {}", card) : facts->name;
}

std::vector<Finding> check_connections(const Examination& examination) {
  std::vector<Judged> all;
  std::map<std::pair<int, int>, bool> reached;  // by any card
  for (const TriedLink& each : examination.tried) reached[{each.from, each.to}] |= each.problem.empty();
  std::vector<TriedLink> tried;
  std::ranges::copy_if(examination.tried, std::back_inserter(tried), [&](const TriedLink& each) {
    return each.problem.empty() || !reached.at({each.from, each.to}) || !is_on_both(examination, each);
  });
  for (const TriedLink& each : tried)
    all.push_back({each.from, each.to, each.card, each.peer_card, !each.problem.empty()});
  std::vector<Finding> findings;
  for (const Blamed& each : blame(all)) {
    const TriedLink& example = tried[each.example];
    const bool is_lost = std::ranges::any_of(examination.tried, [&](const TriedLink& link) {
      const bool is_its = std::ranges::find(each.hosts, link.from) != each.hosts.end() ||
                          std::ranges::find(each.hosts, link.to) != each.hosts.end();
      return is_its && !reached.at({link.from, link.to});
    });
    const std::string card = card_of(examination, each.hosts.front(), each.card);
    const std::string ends = ends_of(examination, example);
    const std::string words =
        each.hosts.size() == 1 ? fmt::format("{} reaches no other host: {}, {}", card, ends, example.problem)
                               : fmt::format("There is no connection from {}: {}", ends, example.problem);
    findings.push_back({is_lost ? State::error : State::warning, "connections",
                        names_of(examination, each.hosts), words + (is_lost ? "." : "; ranks do without it."),
                        remedy_of_connection(examination, card, is_lost)});
  }
  for (const MeasuredLink& link : examination.links)
    if (!link.problem.empty())
      findings.push_back({State::warning, "connections", names_of(examination, {link.from, link.to}),
                          fmt::format("The connection from {} was made, and then {}.",
                                      ends_of(examination, link), link.problem),
                          remedy_of_loss(examination, link)});
  return findings;
}

std::vector<Finding> check_mtu(const Examination& examination) {
  std::map<std::string, std::set<std::string>> by_value;  // "9000": "eth0 of h0"
  std::set<int> hosts;
  const agents::CardFacts* longest = nullptr;
  for (const TriedLink& link : examination.tried) {
    const agents::CardFacts* own = facts_of(examination, link.from, link.card);
    const agents::CardFacts* other = facts_of(examination, link.to, link.peer_card);
    const bool is_known = own != nullptr && other != nullptr && own->mtu > 0 && other->mtu > 0;
    if (!is_known || own->mtu == other->mtu || !link.problem.empty()) continue;
    for (const auto& [host, card] : {std::pair(link.from, own), std::pair(link.to, other)}) {
      hosts.insert(host);
      const std::string& name = examination.hosts[static_cast<std::size_t>(host)].name;
      by_value[fmt::format("{}", card->mtu)].insert(fmt::format("{} of {}", card->name, name));
      if (longest == nullptr || card->mtu > longest->mtu) longest = card;
    }
  }
  if (longest == nullptr) return {};
  std::vector<std::string> parts;
  for (const auto& [value, cards] : by_value)
    parts.push_back(fmt::format("{} bytes of {}", value, fmt::join(cards, ", ")));
  return {
      {State::warning, "MTU", names_of(examination, {hosts.begin(), hosts.end()}),
       fmt::format("Connected cards differ in the length of packets (MTU): {}.", fmt::join(parts, "; ")),
       fmt::format("Set the same by `ip link set {} mtu BYTES`; {}.", longest->name, try_of(longest->mtu))}};
}

std::vector<Finding> check_bandwidth(const Examination& examination) {
  return slow_links(
      examination, "bandwidth", [&](const MeasuredLink& link) { return is_much_slower(examination, link); },
      [&](const MeasuredLink& link) {
        return fmt::format("{} is usual here", gigabits(usual_rate(examination, link)));
      });
}

std::vector<Finding> check_card_speed(const Examination& examination) {
  return slow_links(
      examination, "card speed",
      [&](const MeasuredLink& link) {
        const double expected = kOfItsCard * static_cast<double>(speed_of(examination, link));
        return !is_much_slower(examination, link) && static_cast<double>(rate_of(link)) < expected;
      },
      [&](const MeasuredLink& link) {
        return fmt::format("the card can do {}", gigabits(speed_of(examination, link)));
      });
}

std::vector<Finding> check_latency(const Examination& examination) {
  const std::vector<MeasuredLink> links = good_links(examination);
  std::vector<std::uint64_t> trips;
  for (const MeasuredLink& link : links) trips.push_back(link.round_trip);
  const std::uint64_t usual = middle(trips, false);
  std::vector<Judged> all;
  for (const MeasuredLink& link : links)
    all.push_back({link.from, link.to, link.card, link.peer_card,
                   link.round_trip > kMuchLonger * usual && link.round_trip > usual + kLongest});
  std::vector<Finding> findings;
  for (const Blamed& each : blame(all)) {
    const MeasuredLink& link = links[each.example];
    const std::string card = card_of(examination, each.hosts.front(), each.card);
    findings.push_back(
        {State::warning, "latency", names_of(examination, each.hosts),
         fmt::format("A round trip from {} takes {}; {} is usual here.", ends_of(examination, link),
                     milliseconds(link.round_trip), milliseconds(usual)),
         fmt::format("Look at `tc qdisc show dev {}` and the way there: `tracepath HOST`.", card)});
  }
  return findings;
}

std::vector<Finding> sum_up_links(const Examination& examination) {
  std::map<int, std::vector<MeasuredLink>> by_card;
  for (const MeasuredLink& link : good_links(examination)) by_card[link.card].push_back(link);
  std::vector<Finding> findings;
  for (const auto& [card, links] : by_card) {
    std::set<int> hosts;
    for (const MeasuredLink& link : links) hosts.insert({link.from, link.to});
    const auto [slow, fast] = std::ranges::minmax(links, {}, rate_of);
    const auto [near, far] = std::ranges::minmax(links, {}, &MeasuredLink::round_trip);
    const auto range = [](const std::string& a, const std::string& b) {
      return a == b ? a : fmt::format("{} to {}", a, b);
    };
    const std::string sample =
        examination.partners == 0
            ? ""
            : fmt::format(" This is a sample: each host has measured with {} others.", examination.partners);
    findings.push_back(
        {State::ok, "links", names_of(examination, {hosts.begin(), hosts.end()}),
         fmt::format("{}: {} connection{}, {}, round trip {}.{}",
                     card_of(examination, links.front().from, card), links.size(),
                     links.size() == 1 ? "" : "s", range(gigabits(rate_of(slow)), gigabits(rate_of(fast))),
                     range(milliseconds(near.round_trip), milliseconds(far.round_trip)), sample),
         ""});
  }
  if (examination.unmeasured > 0)
    findings.push_back({State::ok, "links", names_of_answers(examination),
                        fmt::format("{} connection{} not measured: no time was left.", examination.unmeasured,
                                    examination.unmeasured == 1 ? " was" : "s were"),
                        ""});
  return findings;
}

}  // namespace rueda
