// SPDX-License-Identifier: Apache-2.0
#include "launcher/host_file.h"

#include <fmt/format.h>

#include <charconv>
#include <sstream>

#include "launcher/options.h"
#include "launcher/small_file.h"

namespace rueda {
namespace {

int slots_from(std::string_view text, const std::string& path, int line) {
  int slots = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slots);
  if (error != std::errc() || end != text.data() + text.size() || slots < 1 || slots > kMostRanks)
    throw UsageError(fmt::format("--hostfile {}, line {}: '{}' ranks; it must be a whole number from 1 to {}",
                                 path, line, text, kMostRanks));
  return slots;
}

}  // namespace

std::string hosts_from_text(const std::string& text, const std::string& path) {
  constexpr std::string_view kSlots = "slots=";
  std::string hosts;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string host, slots, more;
    if (!(words >> host)) continue;
    words >> slots >> more;
    if (!more.empty() || (!slots.empty() && !slots.starts_with(kSlots)))
      throw UsageError(fmt::format("--hostfile {}, line {}: '{}'; it must be HOST or HOST slots=RANKS", path,
                                   number, line));
    if (!slots.empty())
      host += fmt::format(":{}", slots_from(std::string_view(slots).substr(kSlots.size()), path, number));
    hosts += (hosts.empty() ? "" : ",") + host;
  }
  if (hosts.empty()) throw UsageError(fmt::format("--hostfile {}: it names no host", path));
  return hosts;
}

std::string hosts_from_file(const std::string& path) {
  return hosts_from_text(read_small_file("--hostfile", path), path);
}

}  // namespace rueda
