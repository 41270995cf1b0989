// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/host_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "core/base/number.h"
#include "launcher/cli/options.h"
#include "launcher/cli/small_file.h"

namespace rueda {
namespace {

// `where` it was given.
void check_slots(std::string_view text, const std::string& where) {
  const int slots = number_from<int>(text).value_or(0);
  if (slots < 1 || slots > kMostRanks)
    throw UsageError(
        fmt::format("{}: '{}' ranks; it must be a whole number from 1 to {}", where, text, kMostRanks));
}

}  // namespace

void check_host(std::string_view host, const std::string& where) {
  const std::size_t colon = host.rfind(':');
  if (std::ranges::any_of(host, [](char each) { return each <= ' ' || each > '~'; }))
    throw UsageError(
        fmt::format("{}: {:?} names no host; a name has letters, digits and signs of ASCII", where, host));
  if (host.starts_with('-'))
    throw UsageError(fmt::format("{}: '{}' begins with '-', as no host does", where, host));
  if (host.empty() || colon == 0)
    throw UsageError(fmt::format("{}: '{}' names no host; it must be HOST or HOST:RANKS", where, host));
  if (colon != std::string_view::npos) check_slots(host.substr(colon + 1), where);
}

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
    const std::string where = fmt::format("--hostfile {}, line {}", path, number);
    if (!more.empty() || (!slots.empty() && !slots.starts_with(kSlots)))
      throw UsageError(fmt::format("{}: '{}'; it must be HOST or HOST slots=RANKS", where, line));
    if (!slots.empty()) host += ":" + slots.substr(kSlots.size());
    check_host(host, where);
    hosts += (hosts.empty() ? "" : ",") + host;
  }
  if (hosts.empty()) throw UsageError(fmt::format("--hostfile {}: it names no host", path));
  return hosts;
}

std::string hosts_from_list(const std::string& text) {
  std::istringstream list(text + ",");  // so that what follows the last comma is a host, too
  for (std::string host; std::getline(list, host, ',');) check_host(host, fmt::format("--hosts '{}'", text));
  return text;
}

std::string hosts_from_file(const std::string& path) {
  return hosts_from_text(read_small_file("--hostfile", path), path);
}

}  // namespace rueda
