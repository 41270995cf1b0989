// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/link_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
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
    for (const int host : {each.from, each.to}) {
      CardRecord& record = of_card[{host, each.card}];
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
    const auto [from, to, card, is_bad] = all[i];
    if (!is_bad) continue;
    std::set<int> hosts;
    if (bad_number.at(card)) {
      for (const Judged& each : all)
        if (each.card == card) hosts.insert({each.from, each.to});
    } else {
      for (const int host : {from, to})
        if (is_dead(host, card)) hosts.insert(host);
      if (hosts.size() == 2) {
        for (const int host : {from, to}) add({host}, card, i);
        continue;
      }
      if (hosts.empty()) hosts = {from, to};
    }
    add(hosts, card, i);
  }
  return blamed;
}

std::vector<std::string> names_of(const Examination& examination, const std::vector<int>& hosts) {
  std::vector<std::string> names;
  for (const int host : hosts) names.push_back(examination.hosts[static_cast<std::size_t>(host)].name);
  return names;
}

std::string gigabits(std::uint64_t bytes) {
  return fmt::format("{:.3g} Gbit/s", 8e-9 * static_cast<double>(bytes));
}
std::string milliseconds(std::uint64_t nanoseconds) {
  return fmt::format("{:.3g} ms", 1e-6 * static_cast<double>(nanoseconds));
}

// "eth0 of h0 to eth0 of h1".
std::string ends_of(const Examination& examination, int from, int to, int card) {
  const auto end = [&](int host) {
    return fmt::format("{} of {}", card_of(examination, host, card),
                       examination.hosts[static_cast<std::size_t>(host)].name);
  };
  return fmt::format("{} to {}", end(from), end(to));
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

// Bytes a second that the slower of both cards should carry; 0: unknown.
std::uint64_t speed_of(const Examination& examination, const MeasuredLink& link) {
  int megabits = kMostMegabits;
  bool known = false;
  for (const int host : {link.from, link.to}) {
    const auto& facts = examination.hosts[static_cast<std::size_t>(host)].facts;
    const auto card = static_cast<std::size_t>(link.card);
    if (!facts || card >= facts->network.cards.size() || facts->network.cards[card].megabits <= 0) continue;
    megabits = std::min(megabits, facts->network.cards[card].megabits);
    known = true;
  }
  return known ? static_cast<std::uint64_t>(megabits) * 125'000 : 0;
}

// The names of cards, by number, over which each tried connection came about.
std::vector<std::string> good_cards(const Examination& examination) {
  std::map<int, std::pair<int, bool>> of_number;  // a host that has it; whether all are good
  for (const TriedLink& each : examination.tried) {
    auto [found, is_new] = of_number.emplace(each.card, std::pair(each.from, true));
    if (!each.problem.empty()) found->second.second = false;
  }
  std::vector<std::string> names;
  for (const auto& [card, state] : of_number)
    if (state.second) names.push_back(card_of(examination, state.first, card));
  return names;
}

std::string remedy_of_connection(const Examination& examination, const std::string& card, bool is_lost) {
  const std::vector<std::string> good = good_cards(examination);
  if (is_lost || good.empty())
    return fmt::format("Open all TCP ports between these hosts, and look at `ip link show {}`.", card);
  return fmt::format("Look at its cable and `ip link show {}`, or leave it out: export RUEDA_RAILS={}.", card,
                     fmt::join(good, ","));
}

std::uint64_t usual_rate(const Examination& examination) {
  std::vector<std::uint64_t> rates;
  for (const MeasuredLink& link : good_links(examination)) rates.push_back(rate_of(link));
  return middle(rates, true);
}

bool is_much_slower(const MeasuredLink& link, std::uint64_t usual) {
  return static_cast<double>(rate_of(link)) < kMuchSlower * static_cast<double>(usual);
}

// `against`: what the rate is compared with, in words.
std::vector<Finding> slow_links(const Examination& examination, const std::string& check,
                                const std::function<bool(const MeasuredLink&)>& is_slow,
                                const std::function<std::string(const MeasuredLink&)>& against) {
  const std::vector<MeasuredLink> links = good_links(examination);
  std::vector<Judged> all;
  for (const MeasuredLink& link : links) all.push_back({link.from, link.to, link.card, is_slow(link)});
  std::vector<Finding> findings;
  for (const Blamed& each : blame(all)) {
    const MeasuredLink& link = links[each.example];
    const std::string card = card_of(examination, each.hosts.front(), each.card);
    findings.push_back(
        {State::warning, check, names_of(examination, each.hosts),
         fmt::format("{} carries {} there and {} back; {}.",
                     ends_of(examination, link.from, link.to, link.card), gigabits(link.sent),
                     gigabits(link.received), against(link)),
         fmt::format("Look at `ethtool {}`, `tc qdisc show dev {}` and other traffic.", card, card)});
  }
  return findings;
}

}  // namespace

std::string card_of(const Examination& examination, int host, int card) {
  const auto& facts = examination.hosts[static_cast<std::size_t>(host)].facts;
  const auto number = static_cast<std::size_t>(card);
  if (!facts || number >= facts->network.cards.size()) return fmt::format("card {}", card);
  return facts->network.cards[number].name;
}

std::vector<Finding> check_connections(const Examination& examination) {
  std::vector<Judged> all;
  std::map<std::pair<int, int>, bool> reached;  // by any card
  for (const TriedLink& each : examination.tried) {
    all.push_back({each.from, each.to, each.card, !each.problem.empty()});
    reached[{each.from, each.to}] |= each.problem.empty();
  }
  std::vector<Finding> findings;
  for (const Blamed& each : blame(all)) {
    const TriedLink& example = examination.tried[each.example];
    const bool is_lost = std::ranges::any_of(examination.tried, [&](const TriedLink& link) {
      const bool is_its = std::ranges::find(each.hosts, link.from) != each.hosts.end() ||
                          std::ranges::find(each.hosts, link.to) != each.hosts.end();
      return is_its && link.card == each.card && !reached.at({link.from, link.to});
    });
    const std::string card = card_of(examination, each.hosts.front(), each.card);
    const std::string ends = ends_of(examination, example.from, example.to, example.card);
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
                                      ends_of(examination, link.from, link.to, link.card), link.problem),
                          "Look for lost packets: `ip -s link`."});
  return findings;
}

std::vector<Finding> check_bandwidth(const Examination& examination) {
  const std::uint64_t usual = usual_rate(examination);
  return slow_links(
      examination, "bandwidth", [&](const MeasuredLink& link) { return is_much_slower(link, usual); },
      [&](const MeasuredLink&) { return fmt::format("{} is usual here", gigabits(usual)); });
}

std::vector<Finding> check_card_speed(const Examination& examination) {
  const std::uint64_t usual = usual_rate(examination);
  return slow_links(
      examination, "card speed",
      [&](const MeasuredLink& link) {
        const double expected = kOfItsCard * static_cast<double>(speed_of(examination, link));
        return !is_much_slower(link, usual) && static_cast<double>(rate_of(link)) < expected;
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
    all.push_back({link.from, link.to, link.card,
                   link.round_trip > kMuchLonger * usual && link.round_trip > usual + kLongest});
  std::vector<Finding> findings;
  for (const Blamed& each : blame(all)) {
    const MeasuredLink& link = links[each.example];
    const std::string card = card_of(examination, each.hosts.front(), each.card);
    findings.push_back(
        {State::warning, "latency", names_of(examination, each.hosts),
         fmt::format("A round trip from {} takes {}; {} is usual here.",
                     ends_of(examination, link.from, link.to, link.card), milliseconds(link.round_trip),
                     milliseconds(usual)),
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
  return findings;
}

}  // namespace rueda
