// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/program_options.hpp>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <sstream>
#include <string_view>

#include "core/base/config.h"
#include "core/base/number.h"
#include "launcher/cli/config_file.h"
#include "launcher/cli/duration.h"
#include "launcher/cli/flag_values.h"
#include "launcher/cli/flags.h"
#include "launcher/cli/host_file.h"
#include "launcher/cli/page_options.h"
#include "launcher/cli/virtual_hosts.h"
#include "launcher/system/processes.h"

namespace rueda {
namespace {

namespace po = boost::program_options;

constexpr int kReplace = 1;
constexpr int kMostVirtualHosts = 99;  // as rueda-hosts has them
constexpr int kMostRails = 9;

po::options_description describe(const std::string& caption, const std::function<bool(const Flag&)>& chosen,
                                 const std::function<std::string(const Flag&)>& meaning) {
  po::options_description description(caption, 110, 60);
  for (const Flag& flag : flags()) {
    if (!chosen(flag)) continue;
    const std::string name(flag.name);
    if (flag.value.empty()) {
      description.add_options()(name.c_str(), meaning(flag).c_str());
    } else {
      description.add_options()(name.c_str(), po::value<std::string>()->value_name(std::string(flag.value)),
                                meaning(flag).c_str());
    }
  }
  return description;
}

po::options_description everything() {
  return describe(
      "", [](const Flag&) { return true; }, [](const Flag&) { return std::string(); });
}

// How many of the words behind it are its value: "MIN MAX" are two.
std::ptrdiff_t values_behind(const std::string& word) {
  if (!word.starts_with("--") || word.find('=') != std::string::npos) return 0;
  const Flag* flag = find_flag(std::string_view(word).substr(2));
  return flag == nullptr || flag->value.empty() ? 0 : 1 + std::ranges::count(flag->value, ' ');
}

// The words that are ruedarun's own; `rest` becomes the first word that is not.
std::vector<std::string> own_words(std::span<const std::string> words, std::size_t& rest) {
  std::vector<std::string> own;
  for (rest = 0; rest < words.size(); ++rest) {
    if (words[rest] == "--") return ++rest, own;
    if (words[rest].size() < 2 || words[rest].front() != '-') return own;
    const std::string name = words[rest];
    own.push_back(spelled_out(name));
    std::string value;
    const std::ptrdiff_t count = values_behind(own.back());
    for (std::ptrdiff_t i = 0; i < count; ++i) {
      if (++rest == words.size())
        throw UsageError(
            fmt::format("{} needs {}; see ruedarun --help", name, count == 1 ? "a value" : "two values"));
      value += (i == 0 ? "" : " ") + words[rest];
    }
    if (count == 0) continue;
    if (value.empty()) {  // the parser takes no empty value after "="
      own.push_back(value);
    } else {
      own.back() += "=" + value;
    }
  }
  return own;
}

std::vector<GivenFlag> parse(const std::vector<std::string>& words) {
  const po::options_description description = everything();
  const auto style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  std::vector<GivenFlag> given;
  try {
    for (const po::option& option :
         po::command_line_parser(words).options(description).style(style).run().options)
      given.push_back({option.string_key, option.value.empty() ? "" : option.value.front()});
  } catch (const po::error& error) {
    throw UsageError(fmt::format("{}; see ruedarun --help", error.what()));
  }
  return given;
}

std::string one_card(const std::string& text) {
  if (text.empty() || text.find(',') != std::string::npos)
    throw UsageError(fmt::format("--network-interface is '{}'; name one card: this version uses one", text));
  return text;
}

void append(std::vector<std::string>& words, const std::string& text) {
  const std::vector<std::string> more = words_of(text);
  words.insert(words.end(), more.begin(), more.end());
}

// "0,2-3".
std::set<int> ranks_of(const std::string& text) {
  std::set<int> ranks;
  std::istringstream list(text + ",");
  for (std::string part; std::getline(list, part, ',');) {
    const std::size_t dash = part.find('-');
    const auto number = [&](std::string_view digits) {
      const int value = number_from<int>(digits).value_or(-1);
      if (value < 0 || value >= kMostRanks)
        throw UsageError(fmt::format("--output is '{}'; it must be a list of ranks, as 0,4-7", text));
      return value;
    };
    const int first = number(std::string_view(part).substr(0, dash));
    const int last = dash == std::string::npos ? first : number(std::string_view(part).substr(dash + 1));
    for (int rank = first; rank <= last; ++rank) ranks.insert(rank);
  }
  return ranks;
}

void set_grace(LaunchOptions& options, const std::string& flag, const std::string& text) {
  options.grace = read_time(flag, text);
  options.grace_given = true;
}

void set_virtual_hosts(LaunchOptions& options, const std::string& text) {
  options.virtual_hosts.count = whole_number("--virtual-hosts", text, kMostVirtualHosts);
}

void set_terminal(LaunchOptions& options, const std::string& text) {
  options.terminal = choice_of<LaunchOptions::Terminal>("tty", text, std::array{"auto", "always", "never"});
}

// For MPI, and for data by TCP.
void use_card(LaunchOptions& options, const std::string& text) {
  options.network_interface = one_card(text);
  options.settings["RAILS"] = {options.network_interface, "--network-interface"};
}

using Action = LaunchOptions::Action;

const std::map<std::string_view, SetFlag>& acts() {
  static const std::map<std::string_view, SetFlag> table{
      {"num-proc",
       [](LaunchOptions& o, const std::string& text) { o.ranks = whole_number("-np", text, kMostRanks); }},
      {"hosts", [](LaunchOptions& o, const std::string& text) { o.hosts = hosts_from_list(text); }},
      {"hostfile", [](LaunchOptions& o, const std::string& text) { o.hosts = hosts_from_file(text); }},
      {"virtual-hosts", set_virtual_hosts},
      {"rails",
       [](LaunchOptions& o, const std::string& text) {
         o.virtual_hosts.rails = whole_number("--rails", text, kMostRails);
       }},
      {"rate", [](LaunchOptions& o, const std::string& text) { o.virtual_hosts.rate = text; }},
      {"ssh-port",
       [](LaunchOptions& o, const std::string& text) {
         o.ssh_words += fmt::format(" -p {}", whole_number("--ssh-port", text, 65535));
       }},
      {"ssh-identity-file", [](LaunchOptions& o, const std::string& text) { o.ssh_words += " -i " + text; }},
      {"network-interface", use_card},
      {"network-interfaces", use_card},
      {"output-filename", [](LaunchOptions& o, const std::string& text) { o.output_folder = text; }},
      {"launcher",
       [](LaunchOptions& o, const std::string& text) {
         o.launcher = choice_of<LaunchOptions::Launcher>("launcher", text, std::array{"own", "hydra"});
       }},
      {"remote-shell", [](LaunchOptions& o, const std::string& text) { o.remote_shell = words_of(text); }},
      {"bind",
       [](LaunchOptions& o, const std::string& text) {
         o.binding = choice_of<agents::Binding>("bind", text, std::array{"none", "core", "socket"});
       }},
      {"output", [](LaunchOptions& o, const std::string& text) { o.shown = ranks_of(text); }},
      {"label",
       [](LaunchOptions& o, const std::string& text) {
         o.label = choice_of<LaunchOptions::Label>("label", text, std::array{"none", "rank", "host"});
       }},
      {"tty", set_terminal},
      {"no-prefix", [](LaunchOptions& o, const std::string&) { o.label = LaunchOptions::Label::none; }},
      {"prefix-output-with-timestamp", [](LaunchOptions& o, const std::string&) { o.prefix_time = true; }},
      {"config-file", [](LaunchOptions&, const std::string&) {}},  // has been read
      {"stop-after",
       [](LaunchOptions& o, const std::string& text) { o.stop_after = read_time("--stop-after", text); }},
      {"grace", [](LaunchOptions& o, const std::string& text) { set_grace(o, "--grace", text); }},
      {"stop-grace", [](LaunchOptions& o, const std::string& text) { set_grace(o, "--stop-grace", text); }},
      {"mpi-args", [](LaunchOptions& o, const std::string& text) { append(o.mpiexec_words, text); }},
      {"binding-args", [](LaunchOptions& o, const std::string& text) { append(o.mpiexec_words, text); }},
      {"tcp", [](LaunchOptions& o, const std::string&) { o.tcp = true; }},
      {"mpi", [](LaunchOptions&, const std::string&) {}},
      {"verbose", [](LaunchOptions& o, const std::string&) { o.verbose = true; }},
      {"version", [](LaunchOptions& o, const std::string&) { o.action = Action::version; }},
      {"help", [](LaunchOptions& o, const std::string&) { o.action = Action::help; }},
      {"print-config", [](LaunchOptions& o, const std::string&) { o.action = Action::print_config; }},
      {"check-build", [](LaunchOptions& o, const std::string&) { o.action = Action::check_build; }},
      {"doctor", [](LaunchOptions& o, const std::string&) { o.action = Action::doctor; }},
      {"merge-timeline", [](LaunchOptions& o, const std::string& text) {
         o.action = Action::merge_timeline;
         o.merged_timeline = text;
       }}};
  return table;
}

void set(LaunchOptions& options, const Flag& flag, const std::string& value) {
  const std::string name(flag.setting);
  if (std::ranges::find(settings(), flag.setting, &Setting::name) == settings().end()) {
    options.notes.push_back(
        fmt::format("--{} is ignored: this version has no setting RUEDA_{}", flag.name, flag.setting));
    return;
  }
  options.settings[name] = {flag.text(flag.name, value), fmt::format("--{}", flag.name)};
}

void apply(LaunchOptions& options, const GivenFlag& given) {
  const Flag* flag = find_flag(given.name);
  if (flag == nullptr) throw UsageError(fmt::format("no such flag: --{}; see ruedarun --help", given.name));
  switch (flag->kind) {
    case Flag::Kind::own: {
      for (const auto* table : {&elastic_flags(), &page_flags()})
        if (table->contains(flag->name)) return table->at(flag->name)(options, given.value);
      return acts().at(flag->name)(options, given.value);
    }
    case Flag::Kind::setting: return set(options, *flag, given.value);
    case Flag::Kind::ignored:
      options.notes.push_back(fmt::format("--{} is ignored: {}", flag->name, flag->meaning));
      return;
  }
}

bool is_file(const std::string& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode);
}

std::string meaning_of_setting(const Flag& flag) {
  const auto row = std::ranges::find(settings(), flag.setting, &Setting::name);
  return fmt::format("RUEDA_{}{}", flag.setting,
                     row == settings().end() ? " (not in this version: ignored)" : "");
}

}  // namespace

LaunchOptions parse_launch_options(std::span<const std::string> arguments) {
  std::size_t rest = 0;
  const std::vector<GivenFlag> given = parse(own_words(arguments, rest));
  LaunchOptions options;
  for (const GivenFlag& flag : given)
    if (flag.name == "config-file")
      for (const GivenFlag& in_file : flags_from_file(flag.value)) apply(options, in_file);
  for (const GivenFlag& flag : given) apply(options, flag);
  options.command.assign(arguments.begin() + static_cast<std::ptrdiff_t>(rest), arguments.end());
  if (options.action == Action::merge_timeline && options.command.empty())
    throw UsageError("say which timelines to merge: ruedarun --merge-timeline OUT FILES...");
  if (options.action == Action::doctor) settle_virtual_hosts(options);
  if (options.action == Action::dump) settle_dump(options);
  if (options.action == Action::status || options.action == Action::stacks ||
      (options.json && options.action != Action::doctor))
    settle_status(options);
  if (!options.report.file.empty()) settle_report(options);
  if (options.action != Action::launch) return options;
  settle_elastic(options);
  if (options.ranks == 0)
    throw UsageError(
        fmt::format("say how many ranks to start with -np N{}; see ruedarun --help",
                    options.report.file.empty() ? "" : ", or name summaries, which end in .json"));
  if (options.command.empty()) throw UsageError("say which program to start: ruedarun -np N PROGRAM ARGS...");
  if (options.terminal == LaunchOptions::Terminal::always && !options.shown.empty() &&
      !options.shown.contains(0))
    throw UsageError(
        "--tty always shows the output of rank 0, and --output leaves it out; add 0 to --output");
  settle_virtual_hosts(options);
  if (!options.mpiexec_words.empty() && options.launcher != LaunchOptions::Launcher::hydra)
    options.notes.push_back(
        "--mpi-args and --binding-args are ignored: they are words for mpiexec, which --launcher hydra uses");
  return options;
}

std::vector<std::string> words_of(const std::string& text) {
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\')
      ++i;
    else if (text[i] == '"' || text[i] == '\'')
      quoted = !quoted;
  }
  if (quoted) throw UsageError(fmt::format("'{}': a quotation mark is not closed", text));
  std::vector<std::string> words = po::split_unix(text);
  std::erase(words, "");
  return words;
}

void export_choices(const LaunchOptions& options) {
  for (const auto& [name, given] : options.settings)
    ::setenv(("RUEDA_" + name).c_str(), given.text.c_str(), kReplace);
  if (options.tcp) {
    ::setenv("MPIR_CVAR_CH4_NETMOD", "ofi", kReplace);
    ::setenv("FI_PROVIDER", "tcp", kReplace);
  }
  if (!options.network_interface.empty())
    ::setenv("FI_TCP_IFACE", options.network_interface.c_str(), kReplace);
}

std::string help_text() {
  auto of_kind = [](Flag::Kind kind) { return [kind](const Flag& flag) { return flag.kind == kind; }; };
  auto meaning = [](const Flag& flag) { return std::string(flag.meaning); };
  std::ostringstream text;
  text << "ruedarun [OPTIONS] -np N PROGRAM ARGS...\n"
          "ruedarun --merge-timeline OUT FILES...\n"
          "ruedarun --doctor [-H HOSTS] [-np N] [PROGRAM]\n"
          "ruedarun --status [PID] [--json]\n"
          "ruedarun --report FILE.html SUMMARY.json... [--labels NAME...]\n"
          "ruedarun --stacks [PID] [--json] [--verbose]\n"
          "Starts N ranks of PROGRAM. Everything after PROGRAM belongs to it.\n\n"
       << describe("Options", of_kind(Flag::Kind::own), meaning) << "\n"
       << describe("Options that set a setting for all ranks", of_kind(Flag::Kind::setting),
                   meaning_of_setting)
       << "\n"
       << describe("Options of horovodrun that are ignored, and why", of_kind(Flag::Kind::ignored), meaning)
       << "\nSettings, from the environment\n";
  const Config defaults;
  for (const Setting& setting : settings())
    text << fmt::format("  RUEDA_{:<22} {} ({}; default: {}{})\n", setting.name, setting.meaning,
                        setting.legal, setting.show(defaults),
                        setting.alias.empty() ? "" : fmt::format("; also {}", setting.alias));
  text << "\nEach rank finds RUEDA_RANK, RUEDA_SIZE, RUEDA_LOCAL_RANK, RUEDA_LOCAL_SIZE, RUEDA_CROSS_RANK "
          "and\n"
          "RUEDA_CROSS_SIZE in its environment. The exit status is that of the first rank that failed, 128 + "
          "S "
          "when it\nwas killed by signal S, 2 when the command line is wrong, and 77 where virtual hosts "
          "cannot be "
          "made.\n";
  return text.str();
}

void check_program(const std::string& program) {
  if (program.find('/') != std::string::npos) {
    if (std::error_code none; std::filesystem::is_directory(program, none))
      throw UsageError(fmt::format("'{}' is a folder, not a program", program));
    if (!is_file(program)) throw UsageError(fmt::format("no such program: '{}'", program));
    if (::access(program.c_str(), X_OK) != 0)
      throw UsageError(fmt::format("not executable: '{}'; try chmod +x", program));
    return;
  }
  if (is_program(program)) return;
  throw UsageError(
      fmt::format("no such program: '{}' is not in PATH{}", program,
                  is_file(program) ? fmt::format("; say './{}' for the one in this folder", program) : ""));
}

}  // namespace rueda
