// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/findings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "launcher/doctor/link_checks.h"
#include "launcher/system/json_text.h"
#include "launcher/system/printable.h"

namespace rueda {
namespace {

using State = Finding::State;

constexpr std::size_t kMostNames = 4;

bool same_words(const Finding& a, const Finding& b) {
  return a.state == b.state && a.check == b.check && a.sentence == b.sentence && a.remedy == b.remedy;
}

std::string in_words(const std::vector<std::string>& names, std::size_t hosts) {
  if (hosts > 1 && names.size() == hosts) return "all hosts";
  const auto first = std::span(names).first(std::min(names.size(), kMostNames));
  const std::string more =
      names.size() > kMostNames ? fmt::format(" and {} more", names.size() - kMostNames) : "";
  return fmt::format("{}{}", fmt::join(first, ","), more);
}

std::string counted(std::ptrdiff_t count, std::string_view word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

}  // namespace

std::string_view name_of(State state) {
  switch (state) {
    case State::ok: return "ok";
    case State::warning: return "warning";
    case State::error: return "error";
  }
  return "";
}

bool has_error(const std::vector<Finding>& findings) {
  return std::ranges::any_of(findings, [](const Finding& each) { return each.state == State::error; });
}

std::vector<Finding> in_order(const std::vector<Finding>& findings) {
  std::vector<Finding> merged;
  for (const Finding& each : findings) {
    const auto same =
        std::ranges::find_if(merged, [&](const Finding& other) { return same_words(each, other); });
    if (same == merged.end()) {
      merged.push_back(each);
    } else {
      for (const std::string& host : each.hosts)
        if (std::ranges::find(same->hosts, host) == same->hosts.end()) same->hosts.push_back(host);
    }
  }
  std::ranges::stable_sort(merged, {}, &Finding::state);
  return merged;
}

std::string printable_line(std::string line) {
  while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
  return printable(std::move(line), "");
}

std::string to_text(const std::vector<Finding>& findings, std::size_t hosts) {
  std::size_t widest = 0;
  for (const Finding& each : findings) widest = std::max(widest, in_words(each.hosts, hosts).size());
  std::string text;
  for (const Finding& each : findings)
    text += printable_line(fmt::format("{:<7}  {:<{}}  {}{}{}", name_of(each.state),
                                       in_words(each.hosts, hosts), widest, each.sentence,
                                       each.remedy.empty() ? "" : " Remedy: ", each.remedy)) +
            "\n";
  const auto count = [&](State state) { return std::ranges::count(findings, state, &Finding::state); };
  return text + fmt::format("{}, {}, {} ok on {}.\n", counted(count(State::error), "error"),
                            counted(count(State::warning), "warning"), count(State::ok),
                            counted(static_cast<std::ptrdiff_t>(hosts), "host"));
}

std::string to_json(const std::vector<Finding>& findings, const Examination& examination) {
  using Json = nlohmann::ordered_json;
  Json all{{"ok", !has_error(findings)},
           {"hosts", Json::array()},
           {"findings", Json::array()},
           {"links", Json::array()}};
  for (const ExaminedHost& host : examination.hosts)
    all["hosts"].push_back({{"host", host.name}, {"answered", host.facts.has_value()}});
  for (const Finding& each : findings)
    all["findings"].push_back({{"state", name_of(each.state)},
                               {"check", each.check},
                               {"hosts", each.hosts},
                               {"sentence", each.sentence},
                               {"remedy", each.remedy}});
  const auto name = [&](int host) { return examination.hosts[static_cast<std::size_t>(host)].name; };
  for (const MeasuredLink& link : examination.links)
    all["links"].push_back({{"from", name(link.from)},
                            {"to", name(link.to)},
                            {"from_card", card_of(examination, link.from, link.card)},
                            {"to_card", card_of(examination, link.to, link.peer_card)},
                            {"round_trip_ns", link.round_trip},
                            {"sent_bytes_per_second", link.sent},
                            {"received_bytes_per_second", link.received},
                            {"problem", link.problem}});
  return json_text(all, 2) + "\n";
}

}  // namespace rueda
