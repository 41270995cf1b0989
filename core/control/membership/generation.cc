// SPDX-License-Identifier: Apache-2.0
#include "core/control/membership/generation.h"

#include <fmt/format.h>

#include <charconv>

namespace rueda {
namespace {

constexpr Worker kMostWorkers = 1 << 24;

template <class Number>
bool take_number(std::string_view& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, char letter) {
  if (!text.starts_with(letter)) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::vector<Worker> Generation::by_rank() const {
  std::vector<Worker> list;
  for (const auto& [first, end] : workers.ranges())
    for (Worker worker = first; worker < end; ++worker) list.push_back(worker);
  return list;
}

// The numbers before worker 0 count as one that is missing.
std::string to_text(const Generation& generation) {
  std::string text = fmt::format("{} ", generation.number);
  Worker end_before = -1;
  for (const auto& [first, end] : generation.workers.ranges()) {
    if (text.back() != ' ') text += ',';
    if (const Worker missing = first - end_before; missing != 1) text += fmt::format("{}~", missing);
    text += fmt::format("{}", end - first);
    end_before = end;
  }
  return text;
}

std::optional<Generation> generation_from(std::string_view text) {
  Generation generation;
  if (!take_number(text, generation.number) || !take(text, ' ')) return std::nullopt;
  Worker end = -1;
  do {
    Worker missing = 1, count = 0;
    if (!take_number(text, count)) return std::nullopt;
    if (take(text, '~')) {
      missing = count;
      if (!take_number(text, count)) return std::nullopt;
    }
    for (const Worker each : {missing, count}) {
      if (each < 1 || each > kMostWorkers - end) return std::nullopt;
      end += each;
    }
    generation.workers.add(end - count, end);
  } while (take(text, ','));
  return text.empty() ? std::optional(generation) : std::nullopt;
}

}  // namespace rueda
