// SPDX-License-Identifier: Apache-2.0
// horovodrun's flags, files and variables, and what becomes of them.
#include "launcher/cli/flags.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "core/base/config.h"
#include "launcher/cli/config_file.h"
#include "launcher/cli/horovod_names.h"
#include "launcher/cli/host_file.h"
#include "launcher/cli/options.h"

namespace rueda {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Words = std::vector<std::string>;

LaunchOptions parse(Words words) {
  words.insert(words.end(), {"-np", "1", "prog"});
  return parse_launch_options(words);
}

template <class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

constexpr const char* kOfHorovodrun[] = {"num-proc",
                                         "hosts",
                                         "hostfile",
                                         "host-discovery-script",
                                         "ssh-port",
                                         "ssh-identity-file",
                                         "version",
                                         "check-build",
                                         "verbose",
                                         "disable-cache",
                                         "start-timeout",
                                         "output-filename",
                                         "config-file",
                                         "network-interfaces",
                                         "network-interface",
                                         "fusion-threshold-mb",
                                         "cycle-time-ms",
                                         "cache-capacity",
                                         "hierarchical-allreduce",
                                         "no-hierarchical-allreduce",
                                         "hierarchical-allgather",
                                         "no-hierarchical-allgather",
                                         "torus-allreduce",
                                         "no-torus-allreduce",
                                         "autotune",
                                         "no-autotune",
                                         "autotune-log-file",
                                         "autotune-warmup-samples",
                                         "autotune-steps-per-sample",
                                         "autotune-bayes-opt-max-samples",
                                         "autotune-gaussian-process-noise",
                                         "min-np",
                                         "min-num-proc",
                                         "max-np",
                                         "max-num-proc",
                                         "slots-per-host",
                                         "elastic-timeout",
                                         "reset-limit",
                                         "blacklist-cooldown-range",
                                         "timeline-filename",
                                         "timeline-mark-cycles",
                                         "no-timeline-mark-cycles",
                                         "stall-check",
                                         "no-stall-check",
                                         "stall-check-warning-time-seconds",
                                         "stall-check-shutdown-time-seconds",
                                         "mpi-threads-disable",
                                         "no-mpi-threads-disable",
                                         "mpi-args",
                                         "tcp",
                                         "binding-args",
                                         "num-nccl-streams",
                                         "thread-affinity",
                                         "gloo-timeout-seconds",
                                         "log-level",
                                         "log-with-timestamp",
                                         "log-without-timestamp",
                                         "prefix-output-with-timestamp",
                                         "gloo",
                                         "mpi",
                                         "jsrun"};

TEST(Flags, EveryFlagOfHorovodrunIsKnown) {
  for (const char* name : kOfHorovodrun) EXPECT_NE(find_flag(name), nullptr) << name;
  std::set<std::string_view> names;
  for (const Flag& flag : flags())
    EXPECT_TRUE(names.insert(flag.name).second) << flag.name << " is there twice";
}

TEST(Flags, SettingsForTheRanks) {
  const LaunchOptions options = parse({"--fusion-threshold-mb", "32", "--cycle-time-ms=2.5", "--log-level",
                                       "DEBUG", "--log-without-timestamp", "--start-timeout", "60"});
  EXPECT_EQ(options.settings.at("FUSION_THRESHOLD"),
            (LaunchOptions::Given{"33554432", "--fusion-threshold-mb"}));
  EXPECT_EQ(options.settings.at("CYCLE_TIME").text, "2.5");
  EXPECT_EQ(options.settings.at("LOG_LEVEL").text, "debug");
  EXPECT_EQ(options.settings.at("LOG_HIDE_TIME").text, "1");
  EXPECT_EQ(options.settings.at("START_TIMEOUT").text, "60");
  EXPECT_THAT(options.notes, IsEmpty());
  EXPECT_THAT(error_of([] { parse({"--fusion-threshold-mb", "many"}); }), HasSubstr("'many'"));
}

TEST(Flags, TheTunersNumbersAreSettingsAndItsNoiseIsIgnored) {
  const LaunchOptions options =
      parse({"--autotune", "--autotune-log-file", "a.csv", "--autotune-warmup-samples", "1",
             "--autotune-steps-per-sample=5", "--autotune-bayes-opt-max-samples", "2",
             "--autotune-gaussian-process-noise", "0.5"});
  EXPECT_EQ(options.settings.at("AUTOTUNE").text, "1");
  EXPECT_EQ(options.settings.at("AUTOTUNE_LOG").text, "a.csv");
  EXPECT_EQ(options.settings.at("AUTOTUNE_WARMUP_SAMPLES").text, "1");
  EXPECT_EQ(options.settings.at("AUTOTUNE_STEPS_PER_SAMPLE").text, "5");
  EXPECT_EQ(options.settings.at("AUTOTUNE_CANDIDATES").text, "2");
  EXPECT_THAT(options.notes, ElementsAre(HasSubstr("--autotune-gaussian-process-noise is ignored")));
}

TEST(Flags, TheHierarchyOfNcclIsASettingAndTheOthersAreMeasured) {
  EXPECT_EQ(parse({"--hierarchical-allreduce"}).settings.at("NCCL_HIERARCHY").text, "1");
  EXPECT_EQ(parse({"--no-hierarchical-allreduce"}).settings.at("NCCL_HIERARCHY").text, "0");
  EXPECT_THAT(parse({"--hierarchical-allgather", "--torus-allreduce"}).notes,
              ElementsAre(HasSubstr("--hierarchical-allgather is ignored: the route"),
                          HasSubstr("--torus-allreduce is ignored: the route")));
}

// A flag works as soon as core has its setting, and is told until then.
TEST(Flags, AFlagWhoseSettingIsMissingIsTold) {
  for (const Flag& flag : flags()) {
    if (flag.kind != Flag::Kind::setting) continue;
    bool exists = false;
    for (const Setting& setting : settings()) exists = exists || setting.name == flag.setting;
    const LaunchOptions options = parse({"--" + std::string(flag.name) + (flag.value.empty() ? "" : "=1")});
    EXPECT_EQ(options.settings.count(std::string(flag.setting)), exists ? 1u : 0u) << flag.name;
    EXPECT_EQ(options.notes.size(), exists ? 0u : 1u) << flag.name;
  }
}

TEST(Flags, WhatIsIgnoredIsTold) {
  EXPECT_THAT(parse({"--gloo", "--jsrun"}).notes,
              ElementsAre(HasSubstr("--gloo is ignored"), HasSubstr("--jsrun is ignored")));
  EXPECT_THAT(parse({"--mpi"}).notes, IsEmpty());
}

TEST(Flags, TheOthers) {
  const LaunchOptions options = parse({"-prefix-timestamp", "--mpi-args=-bind-to 'core 1'", "-p", "2222",
                                       "-i", "key", "--network-interface", "eth0", "--tcp"});
  EXPECT_TRUE(options.prefix_time);
  EXPECT_TRUE(options.tcp);
  EXPECT_THAT(options.mpiexec_words, ElementsAre("-bind-to", "core 1"));
  EXPECT_THAT(options.notes, ElementsAre(HasSubstr("--launcher hydra")));
  EXPECT_THAT(parse({"--mpi-args=-v", "--launcher=hydra"}).notes, IsEmpty());
  EXPECT_EQ(options.ssh_words, " -p 2222 -i key");
  EXPECT_EQ(options.network_interface, "eth0");
  EXPECT_EQ(parse({"-v"}).action, LaunchOptions::Action::version);
  EXPECT_EQ(parse({"-cb"}).action, LaunchOptions::Action::check_build);
  EXPECT_THAT(error_of([] { parse({"--network-interfaces", "a,b"}); }), HasSubstr("name one card"));
  EXPECT_THAT(error_of([] { parse({"-p", "ssh"}); }), HasSubstr("65535"));
}

TEST(ConfigFile, SectionsAndFlags) {
  const std::string text =
      "verbose: true\nparams:\n  fusion_threshold_mb: 32\n  cycle-time-ms: 5\nautotune:\n  enabled: false\n"
      "  log-file: a.csv\ntimeline:\n  filename: t.json\nstall-check:\n  enabled: false\n"
      "  warning-time-seconds: 30\nlibrary-options:\n  mpi-threads-disable: false\n"
      "logging:\n  level: INFO\n  hide-timestamp: true\n";
  EXPECT_THAT(
      flags_from_text(text, "f"),
      ElementsAre(GivenFlag{"verbose", ""}, GivenFlag{"fusion-threshold-mb", "32"},
                  GivenFlag{"cycle-time-ms", "5"}, GivenFlag{"no-autotune", ""},
                  GivenFlag{"autotune-log-file", "a.csv"}, GivenFlag{"timeline-filename", "t.json"},
                  GivenFlag{"no-stall-check", ""}, GivenFlag{"stall-check-warning-time-seconds", "30"},
                  GivenFlag{"no-mpi-threads-disable", ""}, GivenFlag{"log-level", "INFO"},
                  GivenFlag{"log-hide-timestamp", ""}));
  EXPECT_THAT(flags_from_text("", "f"), IsEmpty());
  EXPECT_THAT(flags_from_text("verbose: false", "f"), IsEmpty());
}

TEST(ConfigFile, ErrorsNameTheFileAndTheKey) {
  auto error = [](const char* text) { return error_of([&] { flags_from_text(text, "f.yaml"); }); };
  EXPECT_THAT(error("params:\n  nonsense: 3\n"), AllOf(HasSubstr("f.yaml"), HasSubstr("nonsense")));
  EXPECT_THAT(error("params: 3\n"), HasSubstr("params"));
  EXPECT_THAT(error("- a\n- b\n"), HasSubstr("map"));
  EXPECT_THAT(error("a: [1\n"), HasSubstr("f.yaml"));
  EXPECT_THAT(error("cycle-time-ms: [1, 2]\n"), HasSubstr("cycle-time-ms"));
  EXPECT_THAT(error_of([] { flags_from_file("/no/such/file"); }), HasSubstr("/no/such/file"));
}

TEST(HostFile, LinesInEveryForm) {
  EXPECT_EQ(hosts_from_text("a slots=2\n# remark\n\nb\nc:4 # remark\n", "f"), "a:2,b,c:4");
  for (const char* text : {"a slots=x\n", "a slots=0\n", "a 2\n", "a slots=2 b\n"})
    EXPECT_THAT(error_of([&] { hosts_from_text(text, "f"); }), HasSubstr("line 1")) << text;
  for (const char* text : {"", "localhost:0", ":2", "a,,b", "a:2,", "a:x", "a:-1", "a:1x"})
    EXPECT_THAT(error_of([&] { hosts_from_list(text); }), HasSubstr("--hosts '")) << text;
  EXPECT_EQ(hosts_from_list("a:2,b"), "a:2,b");
  EXPECT_THAT(error_of([] { hosts_from_text("# nothing\n", "f"); }), HasSubstr("no host"));
}

TEST(Flags, EachThatSetsASettingHasOneThatExists) {
  for (const Flag& flag : flags()) {
    if (flag.kind != Flag::Kind::setting) continue;
    const std::string name = "RUEDA_" + std::string(flag.setting);
    EXPECT_NE(std::ranges::find(settings(), flag.setting, &Setting::name), settings().end())
        << "--" << flag.name;
  }
}

TEST(HorovodNames, AliasesWorkAndTheRestIsTold) {
  EXPECT_THAT(ignored_variables([](const std::string&) { return false; }), IsEmpty());
  const std::vector<std::string> all = ignored_variables([](const std::string&) { return true; });
  EXPECT_GT(all.size(), 30u);
  for (const Setting& setting : settings())
    for (const std::string& line : all)
      EXPECT_FALSE(!setting.alias.empty() && line.starts_with(std::string(setting.alias) + " ")) << line;
  EXPECT_THAT(all, ::testing::Contains(HasSubstr("HOROVOD_GLOO_IFACE is ignored: there is no Gloo")));
}

}  // namespace
}  // namespace rueda
