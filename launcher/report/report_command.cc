// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/report_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "launcher/page/page_file.h"
#include "launcher/report/comparison_report.h"
#include "launcher/report/run_record.h"

namespace rueda {
namespace {

std::vector<report::RunRecord> read_records(const LaunchOptions& options) {
  std::vector<report::RunRecord> records;
  try {
    for (const std::string& path : options.command) records.push_back(report::read_record(path));
  } catch (const std::runtime_error& error) {
    throw UsageError(error.what());
  }
  report::name_records(records, options.report.labels);
  return records;
}

}  // namespace

int report_runs(const LaunchOptions& options) {
  const nlohmann::json runs = report::comparison_of(read_records(options));
  write_page(options.report.file, page_file({{"kind", "runs"}, {"comparison", runs}}));
  fmt::print("{}\n", options.report.file);
  return 0;
}

}  // namespace rueda
