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

std::string to_text(const Generation& generation) {
  std::string text = fmt::format("{} ", generation.number);
  for (const auto& [first, end] : generation.workers.ranges()) {
    if (text.back() != ' ') text += ',';
    text += end - first == 1 ? fmt::format("{}", first) : fmt::format("{}-{}", first, end - 1);
  }
  return text;
}

// Ranges have to ascend, as to_text() writes them.
std::optional<Generation> generation_from(std::string_view text) {
  Generation generation;
  if (!take_number(text, generation.number) || !take(text, ' ')) return std::nullopt;
  Worker before = -1;
  do {
    Worker first = 0, last = 0;
    if (!take_number(text, first)) return std::nullopt;
    last = first;
    if (take(text, '-') && !take_number(text, last)) return std::nullopt;
    if (first <= before || last < first || last >= kMostWorkers) return std::nullopt;
    generation.workers.add(first, last + 1);
    before = last;
  } while (take(text, ','));
  return text.empty() ? std::optional(generation) : std::nullopt;
}

}  // namespace rueda
