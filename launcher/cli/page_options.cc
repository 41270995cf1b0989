// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/page_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/base/number.h"
#include "launcher/cli/options.h"

namespace rueda {
namespace {

// "[HOST:]PORT".
void set_page(LaunchOptions& options, const std::string& text) {
  constexpr int kMostPort = 65535;
  const std::size_t colon = text.rfind(':');
  const bool has_host = colon != std::string::npos;
  const auto port = number_from<int>(std::string_view(text).substr(has_host ? colon + 1 : 0));
  std::string host = has_host ? text.substr(0, colon) : options.page.host;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (!port || *port < 0 || *port > kMostPort || host.empty())
    throw UsageError(
        fmt::format("--page is '{}'; it must be a port, 0 to {}, or HOST:PORT", text, kMostPort));
  options.page = {.is_wanted = true, .is_given = true, .host = host, .port = *port};
}

bool is_one_process(const std::vector<std::string>& words) {
  return words.size() == 1 && number_from<int>(words.front()).value_or(0) > 0;
}

}  // namespace

const std::map<std::string_view, SetFlag>& page_flags() {
  static const std::map<std::string_view, SetFlag> table{
      {"page", set_page},
      {"no-page", [](LaunchOptions& o, const std::string&) { o.page.is_wanted = false; }},
      {"status", [](LaunchOptions& o, const std::string&) { o.action = LaunchOptions::Action::status; }},
      {"dump", [](LaunchOptions& o, const std::string&) { o.action = LaunchOptions::Action::dump; }},
      {"dump-folder", [](LaunchOptions& o, const std::string& text) { o.dump_folder = text; }},
      {"json", [](LaunchOptions& o, const std::string&) { o.json = true; }}};
  return table;
}

void settle_dump(const LaunchOptions& options) {
  if (!options.command.empty() && !is_one_process(options.command))
    throw UsageError("--dump takes the process number of one ruedarun: ruedarun --dump [PID]");
}

void settle_status(LaunchOptions& options) {
  if (options.action != LaunchOptions::Action::status)
    throw UsageError("--json needs --status or --doctor; see ruedarun --help");
  if (std::erase(options.command, "--json") > 0) options.json = true;
  if (!options.command.empty() && !is_one_process(options.command))
    throw UsageError("--status takes the process number of one ruedarun: ruedarun --status [PID] [--json]");
}

}  // namespace rueda
