// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/sharding/held_parts.h"

#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <set>
#include <span>

#include "core/base/error.h"
#include "core/byte_exchange.h"
#include "frameworks/torch/state/saved_values.h"

namespace rueda {
namespace {

using Holdings = std::vector<std::vector<Holding>>;

constexpr Rank kNobody = -1;
constexpr std::int64_t kMostParts = 1 << 24;
constexpr std::size_t kMessageBytes = 64 << 20;  // a message ends with the parameter that reaches it

// The givers of that division. kNobody: of a part that is lost.
std::vector<Rank> givers_of(const Holdings& holdings, std::int64_t division, std::int64_t version) {
  std::vector<Rank> givers;
  for (Rank rank = 0; rank < static_cast<Rank>(holdings.size()); ++rank) {
    for (const Holding& each : holdings[static_cast<std::size_t>(rank)]) {
      if (each.division != division || each.version != version) continue;
      givers.resize(static_cast<std::size_t>(each.count), kNobody);
      for (const Rank part : each.parts) {
        Rank& giver = givers.at(static_cast<std::size_t>(part));
        if (giver == kNobody) giver = rank;
      }
    }
  }
  return givers;
}

[[noreturn]] void refuse_lost(const std::vector<Rank>& givers, std::int64_t version,
                              const std::string& subject) {
  std::vector<std::size_t> lost;
  for (std::size_t part = 0; part < givers.size(); ++part) {
    if (givers[part] == kNobody) lost.push_back(part);
  }
  const std::string parts = givers.empty() ? "all parts" : fmt::format("part {}", fmt::join(lost, ", "));
  refuse(fmt::format(
      "elastic: {} of the {} parts of a {}, as they were after step {}, cannot be "
      "recovered: all ranks that had them were lost at the same time. Start the job again, from a "
      "checkpoint. A larger part_copies keeps each part on more ranks.",
      parts, givers.size(), subject, version));
}

std::string bytes_of_holdings(const std::vector<HeldParts>& held) {
  std::vector<std::int64_t> numbers;
  for (const HeldParts& each : held) {
    numbers.insert(numbers.end(), {each.division, each.count, each.version, std::ssize(each.parts)});
    for (const auto& [part, saved] : each.parts) numbers.push_back(part);
  }
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(std::int64_t)};
}

// Throws InvalidArgument unless `bytes`, of rank `rank`, are such numbers.
std::vector<Holding> holdings_of(const std::string& bytes, std::size_t rank) {
  std::vector<std::int64_t> numbers(bytes.size() / sizeof(std::int64_t));
  if (!bytes.empty()) std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(std::int64_t));
  std::vector<Holding> holdings;
  for (std::span<const std::int64_t> rest = numbers; !rest.empty();) {
    const std::int64_t count = rest.size() >= 4 ? rest[1] : 0;
    const std::int64_t parts = rest.size() >= 4 ? rest[3] : 0;
    const bool fits = count >= 1 && count <= kMostParts && parts >= 0 && parts <= std::ssize(rest) - 4;
    const auto listed = rest.subspan(fits ? 4 : 0, fits ? static_cast<std::size_t>(parts) : 0);
    if (!fits || !std::ranges::all_of(listed, [&](auto part) { return part >= 0 && part < count; }))
      refuse(fmt::format("elastic: rank {} sent {} bytes that are no list of parts", rank, bytes.size()));
    Holding& holding = holdings.emplace_back(Holding{rest[0], static_cast<Rank>(count), rest[2], {}});
    for (const std::int64_t part : listed) holding.parts.push_back(static_cast<Rank>(part));
    rest = rest.subspan(4 + listed.size());
  }
  return holdings;
}

const std::vector<SavedParameter>& find_part(const std::vector<HeldParts>& held, std::int64_t division,
                                             std::int64_t version, Rank part) {
  for (const HeldParts& each : held) {
    if (each.division != division || each.version != version) continue;
    if (const auto found = each.parts.find(part); found != each.parts.end()) return found->second;
  }
  RUEDA_ASSERT(false);
  static const std::vector<SavedParameter> none;
  return none;
}

std::size_t bytes_in(const SavedParameter& saved) {
  std::size_t bytes = saved.value.defined() ? saved.value.nbytes() : 0;
  for (const auto& [name, value] : saved.state) bytes += value.isTensor() ? value.toTensor().nbytes() : 0;
  return bytes;
}

// The next message of a part, from parameter `next` on, which moves. Groups tell that another one follows.
std::string next_message(const std::vector<SavedParameter>& part, std::size_t& next) {
  SavedModel message;
  for (std::size_t bytes = 0; next < part.size() && bytes < kMessageBytes; ++next) {
    message.parameters.push_back(part[next]);
    bytes += bytes_in(part[next]);
  }
  if (next < part.size()) message.groups.push_back({{"follows", true}});
  return bytes_of(message);
}

}  // namespace

Sources choose_sources(const Holdings& holdings, std::int64_t version, const std::string& subject) {
  std::set<std::int64_t, std::greater<>> divisions;
  for (const auto& of_rank : holdings) {
    for (const Holding& each : of_rank) {
      if (each.version == version) divisions.insert(each.division);
    }
  }
  std::optional<std::vector<Rank>> newest;
  for (const std::int64_t division : divisions) {
    std::vector<Rank> givers = givers_of(holdings, division, version);
    if (std::ranges::count(givers, kNobody) == 0) return {division, std::move(givers)};
    if (!newest) newest = std::move(givers);
  }
  refuse_lost(newest.value_or(std::vector<Rank>()), version, subject);
}

Holdings gather_holdings(const std::vector<HeldParts>& held, const std::string& name, Runtime& runtime) {
  Holdings holdings;
  for (const std::string& bytes : allgather_bytes(bytes_of_holdings(held), name, runtime))
    holdings.push_back(holdings_of(bytes, holdings.size()));
  return holdings;
}

void receive_parts(const std::vector<HeldParts>& held, std::int64_t version, const Sources& sources,
                   std::vector<SavedParameter>& needed, const std::string& name, Runtime& runtime) {
  const at::NoGradGuard no_grad;
  const Rank rank = runtime.topology().rank;
  std::vector<std::int64_t> taken(needed.size());
  for (std::size_t part = 0; part < sources.givers.size(); ++part) {
    const Rank giver = sources.givers[part];
    std::size_t next = 0;
    for (bool follows = true; follows;) {
      std::string bytes;
      if (giver == rank)
        bytes = next_message(find_part(held, sources.division, version, static_cast<Rank>(part)), next);
      broadcast_bytes(bytes, giver, fmt::format("{}.{}", name, part), runtime);
      const SavedModel message = saved_of(bytes);
      for (const SavedParameter& saved : message.parameters) {
        for (std::size_t i = 0; i < needed.size(); ++i) taken[i] += take(needed[i], saved);
      }
      follows = !message.groups.empty();
    }
  }
  for (std::size_t i = 0; i < needed.size(); ++i) check_whole(needed[i], taken[i], rank);
}

}  // namespace rueda
