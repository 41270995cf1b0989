// SPDX-License-Identifier: Apache-2.0
#include "examples/04_report/page.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/files/whole_file.h"
#include "examples/04_report/assets.h"
#include "examples/04_report/html_text.h"
#include "examples/04_report/sections.h"

namespace rueda::examples::report {
namespace {

// Nothing may be fetched, from anywhere: the browser itself forbids it.
constexpr const char* kHead =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Rueda: "
    "report</title>\n";

std::string count_words(std::size_t count, const char* one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

// Tasks in the order in which they come first.
std::vector<Runs> by_task(const std::vector<RunRecord>& records) {
  std::vector<Runs> groups;
  for (const RunRecord& record : records) {
    const auto found =
        std::ranges::find_if(groups, [&](const Runs& group) { return group.front()->task == record.task; });
    Runs& group = found == groups.end() ? groups.emplace_back() : *found;
    group.push_back(&record);
  }
  return groups;
}

std::string task_html(const Runs& runs) {
  return fmt::format("<h2>{}</h2>\n", escaped(task_words(runs.front()->task))) + overview_section(runs) +
         results_section(runs) + training_section(runs) + scaling_section(runs) + sync_section(runs) +
         split_section(runs);
}

}  // namespace

std::string page_html(const std::vector<RunRecord>& records) {
  const std::vector<Runs> groups = by_task(records);
  std::string html = kHead;
  html += fmt::format("<style>\n{}</style>\n</head>\n<body>\n<h1>Training runs</h1>\n", kStyle);
  html += fmt::format("<p class=\"lead\">{}, {}.</p>\n", count_words(records.size(), "run"),
                      count_words(groups.size(), "task"));
  for (const Runs& group : groups) html += task_html(group);
  html += published_section();
  return html + fmt::format("<script>\n{}</script>\n</body>\n</html>\n", kScript);
}

void write_page(const std::filesystem::path& path, const std::string& html) {
  WholeFile file(path);
  file.write(html);
  file.commit();
}

}  // namespace rueda::examples::report
