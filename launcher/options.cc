// SPDX-License-Identifier: Apache-2.0
#include "launcher/options.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/program_options.hpp>
#include <charconv>
#include <cstdlib>
#include <sstream>
#include <string_view>

namespace rueda {
namespace {

namespace po = boost::program_options;

po::options_description make_description() {
  po::options_description description("Options");
  auto add = description.add_options();
  add("num-proc,n", po::value<std::string>()->value_name("N"),
      "how many ranks to start, 1 to 4096 (also -np N)");
  add("hosts,H", po::value<std::string>()->value_name("HOST[:RANKS],..."),
      "where to start them; default: this machine");
  add("output-filename", po::value<std::string>()->value_name("DIR"),
      "also write what each rank prints to DIR/rank.N/stdout and DIR/rank.N/stderr");
  add("no-prefix", "do not put [rank] before each line of output");
  add("verbose", "show how the job is started, and all that mpiexec says");
  add("version", "print the version");
  add("help,h", "print this text");
  add("print-config", "print every setting, its value and where that comes from");
  add("check-build", "print what this Rueda was built with");
  add("merge-timeline", po::value<std::string>()->value_name("OUT"),
      "make one timeline OUT of the FILES that ranks have written; starts nothing");
  return description;
}

// Words that spell an option in a way of their own: Boost would read -np as -n p.
std::string spelled_out(const std::string& word) { return word == "-np" ? "--num-proc" : word; }

bool wants_next_word(const po::options_description& description, const std::string& word) {
  bool is_long = word.starts_with("--");
  if (is_long ? word.find('=') != std::string::npos : word.size() != 2) return false;
  const po::option_description* option = description.find_nothrow(is_long ? word.substr(2) : word, false);
  return option != nullptr && option->semantic()->max_tokens() > 0;
}

// The words that are ruedarun's own; `rest` becomes the first word that is not.
std::vector<std::string> own_words(const po::options_description& description,
                                   std::span<const std::string> words, std::size_t& rest) {
  std::vector<std::string> own;
  for (rest = 0; rest < words.size(); ++rest) {
    if (words[rest] == "--") return ++rest, own;
    if (words[rest].size() < 2 || words[rest].front() != '-') return own;
    own.push_back(spelled_out(words[rest]));
    if (!wants_next_word(description, own.back())) continue;
    if (rest + 1 == words.size())
      throw UsageError(fmt::format("{} needs a value; see ruedarun --help", words[rest]));
    own.push_back(words[++rest]);
  }
  return own;
}

int number_of_ranks(std::string_view text) {
  int ranks = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ranks);
  if (error != std::errc() || end != text.data() + text.size() || ranks < 1 || ranks > kMostRanks)
    throw UsageError(fmt::format("-np is '{}'; it must be a whole number from 1 to {}", text, kMostRanks));
  return ranks;
}

LaunchOptions::Action action_of(const po::variables_map& values) {
  using Action = LaunchOptions::Action;
  if (values.count("help") != 0) return Action::help;
  if (values.count("version") != 0) return Action::version;
  if (values.count("print-config") != 0) return Action::print_config;
  if (values.count("check-build") != 0) return Action::check_build;
  if (values.count("merge-timeline") != 0) return Action::merge_timeline;
  return Action::launch;
}

bool is_file(const std::string& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode);
}

}  // namespace

LaunchOptions parse_launch_options(std::span<const std::string> arguments) {
  po::options_description description = make_description();
  std::size_t rest = 0;
  std::vector<std::string> own = own_words(description, arguments, rest);
  po::variables_map values;
  try {
    auto style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    po::store(po::command_line_parser(own).options(description).style(style).run(), values);
  } catch (const po::error& error) {
    throw UsageError(fmt::format("{}; see ruedarun --help", error.what()));
  }
  LaunchOptions options;
  options.action = action_of(values);
  options.prefix = values.count("no-prefix") == 0;
  options.verbose = values.count("verbose") != 0;
  if (values.count("hosts") != 0) options.hosts = values["hosts"].as<std::string>();
  if (values.count("output-filename") != 0)
    options.output_folder = values["output-filename"].as<std::string>();
  if (values.count("num-proc") != 0) options.ranks = number_of_ranks(values["num-proc"].as<std::string>());
  options.command.assign(arguments.begin() + static_cast<std::ptrdiff_t>(rest), arguments.end());
  if (options.action == LaunchOptions::Action::merge_timeline) {
    options.merged_timeline = values["merge-timeline"].as<std::string>();
    if (options.command.empty())
      throw UsageError("say which timelines to merge: ruedarun --merge-timeline OUT FILES...");
  }
  if (options.action != LaunchOptions::Action::launch) return options;
  if (options.ranks == 0) throw UsageError("say how many ranks to start with -np N; see ruedarun --help");
  if (options.command.empty()) throw UsageError("say which program to start: ruedarun -np N PROGRAM ARGS...");
  return options;
}

std::string help_text() {
  std::ostringstream text;
  text << "ruedarun [OPTIONS] -np N PROGRAM ARGS...\n"
          "ruedarun --merge-timeline OUT FILES...\n"
          "Starts N ranks of PROGRAM. Everything after PROGRAM belongs to it.\n\n"
       << make_description()
       << "\nEach rank finds RUEDA_RANK, RUEDA_SIZE, RUEDA_LOCAL_RANK, RUEDA_LOCAL_SIZE, RUEDA_CROSS_RANK "
          "and\n"
          "RUEDA_CROSS_SIZE in its environment. The exit status is that of the first rank that failed, 128 + "
          "S when it\n"
          "was killed by signal S, and 2 when the command line is wrong.\n";
  return text.str();
}

void check_program(const std::string& program) {
  if (program.find('/') != std::string::npos) {
    if (!is_file(program)) throw UsageError(fmt::format("no such program: '{}'", program));
    if (::access(program.c_str(), X_OK) != 0)
      throw UsageError(fmt::format("not executable: '{}'; try chmod +x", program));
    return;
  }
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string candidate = (folder.empty() ? "." : folder) + "/" + program;
    if (is_file(candidate) && ::access(candidate.c_str(), X_OK) == 0) return;
  }
  throw UsageError(
      fmt::format("no such program: '{}' is not in PATH{}", program,
                  is_file(program) ? fmt::format("; say './{}' for the one in this folder", program) : ""));
}

}  // namespace rueda
