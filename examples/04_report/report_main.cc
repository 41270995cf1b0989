// SPDX-License-Identifier: Apache-2.0
// report SUMMARY.json... [--labels NAME...] -o FILE.html: one page that compares the runs of several
// summaries.
#include <fmt/format.h>

#include <boost/program_options.hpp>
#include <cstdio>
#include <exception>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/04_report/page.h"
#include "examples/04_report/run_record.h"

namespace rueda::examples::report {
namespace {

namespace po = boost::program_options;
using Names = std::vector<std::string>;

// The user's input is wrong: a flag, or a file that a flag names.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Arguments {
  Names summaries;
  Names labels;
  std::filesystem::path output;
  bool help = false;
};

po::options_description description() {
  po::options_description flags(
      "usage: report SUMMARY.json... [--labels NAME...] -o FILE.html\n"
      "Draws the runs that trainers summed up in these files, on one page that needs no network.\n\nflags",
      110);
  flags.add_options()("help", "show this")("labels", po::value<Names>()->multitoken()->value_name("NAME..."),
                                           "a name for each summary, in order [its folder]")(
      "output,o", po::value<std::string>()->value_name("FILE.html"), "the page");
  return flags;
}

Arguments parse(int count, const char* const* arguments) {
  const po::options_description flags = description();
  po::options_description all;
  all.add(flags).add_options()("summary", po::value<Names>());
  po::positional_options_description positions;
  positions.add("summary", -1);
  po::variables_map given;
  try {
    namespace style = po::command_line_style;
    po::store(po::command_line_parser(count, arguments)
                  .options(all)
                  .positional(positions)
                  .style(style::unix_style & ~style::allow_guessing)
                  .run(),
              given);
  } catch (const po::error& error) {
    throw InputError(fmt::format("{}; see report --help", error.what()));
  }
  Arguments parsed{.help = given.count("help") != 0};
  if (given.count("summary") != 0) parsed.summaries = given["summary"].as<Names>();
  if (given.count("labels") != 0) parsed.labels = given["labels"].as<Names>();
  if (given.count("output") != 0) parsed.output = given["output"].as<std::string>();
  return parsed;
}

void check(const Arguments& given) {
  if (given.summaries.empty()) throw InputError("no summary is given; see report --help");
  if (given.output.empty()) throw InputError("-o FILE.html is missing: where the page goes");
  // Else a forgotten name would make a page of somebody's summary.
  if (given.output.extension() != ".html")
    throw InputError(fmt::format("-o is '{}'; it must end in .html", given.output.string()));
  if (!given.labels.empty() && given.labels.size() != given.summaries.size())
    throw InputError(
        fmt::format("--labels gives {} names for {} summaries; give one for each, in order, behind them",
                    given.labels.size(), given.summaries.size()));
}

std::vector<RunRecord> read(const Arguments& given) {
  std::vector<RunRecord> records;
  try {
    for (const std::string& path : given.summaries) records.push_back(read_record(path));
  } catch (const std::runtime_error& error) {
    throw InputError(error.what());
  }
  name_records(records, given.labels);
  return records;
}

int run(int count, const char* const* arguments) {
  const Arguments given = parse(count, arguments);
  if (given.help) {
    std::ostringstream text;
    text << description();
    fmt::print("{}", text.str());
    return 0;
  }
  check(given);
  write_page(given.output, page_html(read(given)));
  fmt::print("{}\n", given.output.string());
  return 0;
}

}  // namespace
}  // namespace rueda::examples::report

int main(int count, char** arguments) {
  try {
    return rueda::examples::report::run(count, arguments);
  } catch (const rueda::examples::report::InputError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
