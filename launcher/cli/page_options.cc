// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/page_options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

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

constexpr const char* kReportUsage = "ruedarun --report FILE.html SUMMARY.json... [--labels NAME...]";

// Their number is that of the summaries, so they come after them.
void refuse_labels(LaunchOptions&, const std::string&) {
  throw UsageError(fmt::format("--labels stands behind the summaries: {}", kReportUsage));
}

void set_report(LaunchOptions& options, const std::string& text) {
  if (text.empty()) throw UsageError("--report is ''; it must end in .html");
  options.report.file = text;
}

// Later is too late to learn that nothing can be written there. Of some folders the kernel says so only to
// those who try.
void check_folder(std::string_view option, const std::string& value, const std::filesystem::path& folder) {
  std::string trial = folder / ".rueda-XXXXXX";
  if (::mkdtemp(trial.data()) != nullptr) {
    ::rmdir(trial.c_str());
    return;
  }
  throw UsageError(fmt::format("{} is '{}', and nothing can be written into '{}': {}", option, value,
                               folder.string(), std::generic_category().message(errno)));
}

void check_folder_of(const std::filesystem::path& file) {
  std::error_code none;
  if (std::filesystem::is_directory(file, none))
    throw UsageError(fmt::format("--report is '{}', a folder; name a file", file.string()));
  check_folder("--report", file.string(), file.has_parent_path() ? file.parent_path() : ".");
}

// A dump makes the folder.
void set_dump_folder(LaunchOptions& options, const std::string& text) {
  if (text.empty()) throw UsageError("--dump-folder is ''; name a folder");
  std::error_code none;
  std::filesystem::path there = text;
  while (!there.empty() && !std::filesystem::exists(there, none)) there = there.parent_path();
  check_folder("--dump-folder", text, there.empty() ? "." : there);
  options.dump_folder = text;
}

// SUMMARY.json... [--labels NAME...]
void take_summaries(LaunchOptions& options) {
  std::vector<std::string>& words = options.command;
  const auto flag = std::ranges::find(words, "--labels");
  if (flag != words.end()) options.report.labels.assign(flag + 1, words.end());
  const bool has_labels = flag != words.end();
  words.erase(flag, words.end());
  for (const std::string& word : words)
    if (!word.ends_with(".json"))
      throw UsageError(
          fmt::format("--report: '{}' does not end in .json, as summaries do: {}", word, kReportUsage));
  const std::size_t labels = options.report.labels.size();
  if (has_labels && labels != words.size())
    throw UsageError(fmt::format(
        "--labels gives {} names for {} summaries; give one for each, in their order", labels, words.size()));
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
      {"report", set_report},
      {"labels", refuse_labels},
      {"stacks", [](LaunchOptions& o, const std::string&) { o.action = LaunchOptions::Action::stacks; }},
      {"dump", [](LaunchOptions& o, const std::string&) { o.action = LaunchOptions::Action::dump; }},
      {"dump-folder", set_dump_folder},
      {"json", [](LaunchOptions& o, const std::string&) { o.json = true; }}};
  return table;
}

void settle_dump(const LaunchOptions& options) {
  if (!options.command.empty() && !is_one_process(options.command))
    throw UsageError("--dump takes the process number of one ruedarun: ruedarun --dump [PID]");
}

void settle_status(LaunchOptions& options) {
  const bool is_stacks = options.action == LaunchOptions::Action::stacks;
  if (options.action != LaunchOptions::Action::status && !is_stacks)
    throw UsageError("--json needs --status, --stacks or --doctor; see ruedarun --help");
  if (std::erase(options.command, "--json") > 0) options.json = true;
  if (is_stacks && std::erase(options.command, "--verbose") > 0) options.verbose = true;
  if (options.command.empty() || is_one_process(options.command)) return;
  throw UsageError(fmt::format("{0} takes the process number of one ruedarun: ruedarun {0} [PID] [--json]{1}",
                               is_stacks ? "--stacks" : "--status", is_stacks ? " [--verbose]" : ""));
}

void settle_report(LaunchOptions& options) {
  const std::filesystem::path file = options.report.file;
  if (options.action != LaunchOptions::Action::launch)
    throw UsageError("--report needs a job or summaries; see ruedarun --help");
  // Else a forgotten name would make a page of somebody's summary.
  if (file.extension() != ".html")
    throw UsageError(fmt::format("--report is '{}'; it must end in .html", file.string()));
  const bool is_job = options.ranks > 0 || options.elastic.least > 0;
  if (is_job) return check_folder_of(file);
  if (options.command.empty())
    throw UsageError(
        fmt::format("--report has no summary and no job: {}, or ruedarun --report FILE.html -np N "
                    "PROGRAM ARGS...",
                    kReportUsage));
  if (!options.command.front().ends_with(".json")) return;  // a job without -np
  options.action = LaunchOptions::Action::report;
  take_summaries(options);
}

}  // namespace rueda
