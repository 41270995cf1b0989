// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/status_text.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/system/printable.h"
#include "launcher/view/plan_view.h"

namespace rueda {
namespace {

using nlohmann::json;

constexpr std::size_t kColumns = 7;
using Row = std::array<std::string, kColumns>;
constexpr std::size_t kMostEvents = 20;

// The column says that it is a rank.
std::string short_name_of(const std::string& name) {
  constexpr std::string_view kRank = "rank ";
  return name.starts_with(kRank) ? name.substr(kRank.size()) : name;
}

Row row_of(const json& rank) {
  const auto number = [&](const char* name) {
    return rank.contains(name) ? fmt::format("{}", rank.at(name).get<std::uint64_t>()) : std::string("-");
  };
  std::string phase = rank.value("phase", "-");
  if (rank.contains("phase_for")) phase += fmt::format(" for {:.1f} s", rank.at("phase_for").get<double>());
  const bool is_late = rank.contains("late_ms");
  return {short_name_of(rank.at("name").get<std::string>()),
          rank.at("host").get<std::string>(),
          number("process"),
          rank.at("state").get<std::string>(),
          number("step"),
          std::move(phase),
          is_late ? fmt::format("{:.1f}", rank.at("late_ms").get<double>()) : "-"};
}

std::string table_of(const std::vector<Row>& rows) {
  std::array<std::size_t, kColumns> widths{};
  for (const Row& row : rows)
    for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < kColumns; ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string line_of(const json& event) {
  const auto at = static_cast<std::time_t>(event.at("at").get<double>());
  std::tm local{};
  ::localtime_r(&at, &local);
  return fmt::format("{:%H:%M:%S} {}: {}\n", local, event.at("kind").get<std::string>(),
                     event.at("text").get<std::string>());
}

// A line for each GPU.
std::string gpu_lines(const json& hosts) {
  std::string text;
  for (const json& host : hosts) {
    std::size_t number = 0;
    for (const json& gpu : host.value("gpus", json::array())) {
      text +=
          fmt::format("{}, GPU {} ({}): {:.1f} of {:.1f} GiB", host.at("name").get<std::string>(), number++,
                      gpu.at("name").get<std::string>(), gpu.at("memory_used").get<double>() / (1 << 30),
                      gpu.at("memory_bytes").get<double>() / (1 << 30));
      if (gpu.contains("busy")) text += fmt::format(", {:.0f} % busy", 100 * gpu.at("busy").get<double>());
      if (gpu.contains("celsius")) text += fmt::format(", {} degrees Celsius", gpu.at("celsius").get<int>());
      text += "\n";
    }
  }
  return text;
}

}  // namespace

std::string status_text(const json& status) {
  std::vector<Row> rows{{"rank", "host", "process", "state", "step", "phase", "late ms"}};
  for (const json& rank : status.at("ranks")) rows.push_back(row_of(rank));
  std::string text = status.at("update").at("line").at("text").get<std::string>() + "\n" + table_of(rows);
  const json& what_ifs = status.at("update").value("late", json::object()).value("what_if", json::array());
  for (const json& what_if : what_ifs)
    text += fmt::format("{:.1f} % faster without the lateness of rank {}\n",
                        what_if.at("faster_percent").get<double>(), what_if.at("rank").get<int>());
  const json& update = status.at("update");
  if (update.contains("plan")) text += plan_text(update.at("plan"));
  text += gpu_lines(update.at("hosts"));
  const json& events = update.at("events");
  for (std::size_t i = events.size() - std::min(events.size(), kMostEvents); i < events.size(); ++i)
    text += line_of(events[i]);
  return printable(std::move(text), "\n");
}

std::string status_line(int process, const json& status) {
  return printable(fmt::format("{}  {}  {}", process, status.at("job").at("command").get<std::string>(),
                               status.at("update").at("line").at("text").get<std::string>()),
                   "\n");
}

}  // namespace rueda
