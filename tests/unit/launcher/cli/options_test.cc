// SPDX-License-Identifier: Apache-2.0
// What ruedarun takes for its own words, and what for the program's.
#include "launcher/cli/options.h"

#include <gmock/gmock.h>

namespace rueda {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

std::string error_of(const Words& words) {
  try {
    parse_launch_options(words);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Options, EverySpellingOfTheNumberOfRanks) {
  for (const Words& words : {Words{"-np", "3", "p"}, Words{"-n", "3", "p"}, Words{"-n3", "p"},
                             Words{"--num-proc", "3", "p"}, Words{"--num-proc=3", "p"}})
    EXPECT_EQ(parse_launch_options(words).ranks, 3) << words.front();
}

TEST(Options, EverythingAfterTheProgramBelongsToIt) {
  LaunchOptions options =
      parse_launch_options(Words{"-np", "2", "prog", "--help", "-np", "7", "--", "-x", ""});
  EXPECT_EQ(options.ranks, 2);
  EXPECT_EQ(options.action, LaunchOptions::Action::launch);
  EXPECT_THAT(options.command, ElementsAre("prog", "--help", "-np", "7", "--", "-x", ""));
}

TEST(Options, TwoDashesEndTheOptions) {
  EXPECT_THAT(parse_launch_options(Words{"-np", "1", "--", "--odd-name", "a"}).command,
              ElementsAre("--odd-name", "a"));
}

TEST(Options, TheOthers) {
  LaunchOptions options = parse_launch_options(
      Words{"-H", "a:2,b", "--output-filename=out", "--no-prefix", "--verbose", "-np", "3", "prog"});
  EXPECT_EQ(options.hosts, "a:2,b");
  EXPECT_EQ(options.output_folder, "out");
  EXPECT_EQ(options.label, LaunchOptions::Label::none);
  EXPECT_TRUE(options.verbose);
  EXPECT_EQ(parse_launch_options(Words{"--help"}).action, LaunchOptions::Action::help);
  EXPECT_EQ(parse_launch_options(Words{"--check-build"}).action, LaunchOptions::Action::check_build);
}

TEST(Options, OutputLabelsAndTheirChoices) {
  LaunchOptions options = parse_launch_options(
      Words{"--output", "0,4-6", "--label=host", "--bind", "socket", "--grace", "2m", "-np", "8", "prog"});
  EXPECT_THAT(options.shown, ElementsAre(0, 4, 5, 6));
  EXPECT_EQ(options.label, LaunchOptions::Label::host);
  EXPECT_EQ(options.binding, agents::Binding::socket);
  EXPECT_EQ(options.grace, std::chrono::seconds(120));
  EXPECT_TRUE(options.grace_given);
  for (const Words& words : {Words{"--output", "a"}, Words{"--output", "3-"}, Words{"--label", "x"},
                             Words{"--bind", "hard"}, Words{"--launcher", "magic"}, Words{"--grace", "0"}})
    EXPECT_THAT(error_of({words[0], words[1], "-np", "1", "p"}),
                AllOf(HasSubstr(words[0]), HasSubstr(words[1])));
  EXPECT_THAT(words_of("a 'b c' \"d\""), ElementsAre("a", "b c", "d"));
  EXPECT_THROW(words_of("'a"), UsageError);
}

TEST(Options, ATerminalForRank0) {
  using Terminal = LaunchOptions::Terminal;
  EXPECT_EQ(parse_launch_options(Words{"-np", "1", "p"}).terminal, Terminal::automatic);
  EXPECT_EQ(parse_launch_options(Words{"--tty", "auto", "-np", "1", "p"}).terminal, Terminal::automatic);
  EXPECT_EQ(parse_launch_options(Words{"--tty=always", "-np", "1", "p"}).terminal, Terminal::always);
  EXPECT_EQ(parse_launch_options(Words{"--tty", "never", "-np", "1", "p"}).terminal, Terminal::never);
  EXPECT_THAT(error_of({"--tty", "yes", "-np", "1", "p"}),
              AllOf(HasSubstr("--tty"), HasSubstr("auto, always, never")));
  EXPECT_THAT(error_of({"--tty", "always", "--output", "1-2", "-np", "3", "p"}),
              HasSubstr("add 0 to --output"));
  EXPECT_EQ(error_of({"--tty", "always", "--output", "0-1", "-np", "3", "p"}), "no error");
}

TEST(Options, TimelinesToMerge) {
  const LaunchOptions options =
      parse_launch_options(Words{"--merge-timeline", "out.json", "a.json", "b.json"});
  EXPECT_EQ(options.action, LaunchOptions::Action::merge_timeline);
  EXPECT_EQ(options.merged_timeline, "out.json");
  EXPECT_THAT(options.command, ElementsAre("a.json", "b.json"));
}

TEST(Options, TheDoctorNeedsNoRanks) {
  const LaunchOptions alone = parse_launch_options(Words{"--doctor", "--json"});
  EXPECT_EQ(alone.action, LaunchOptions::Action::doctor);
  EXPECT_TRUE(alone.json);
  EXPECT_EQ(alone.ranks, 0);
  const LaunchOptions virtual_hosts =
      parse_launch_options(Words{"--doctor", "--virtual-hosts", "2", "python3", "train.py"});
  EXPECT_EQ(virtual_hosts.hosts, "h0:1,h1:1");
  EXPECT_THAT(virtual_hosts.command, ElementsAre("python3", "train.py"));
  EXPECT_THAT(error_of({"--doctor", "--virtual-hosts", "2", "-np", "1"}), HasSubstr("more than -np 1"));
}

TEST(Options, ErrorsNameTheWordAndTheRemedy) {
  EXPECT_THAT(error_of({"--merge-timeline", "out.json"}), HasSubstr("--merge-timeline OUT FILES..."));
  EXPECT_THAT(error_of({"-np"}), HasSubstr("-np needs a value"));
  for (const char* number : {"0", "-1", "4097", "two", "2x", ""})
    EXPECT_THAT(error_of({"-np", number, "p"}), AllOf(HasSubstr(number), HasSubstr("from 1 to 4096")))
        << number;
  EXPECT_THAT(error_of({"p"}), HasSubstr("-np N"));
  EXPECT_THAT(error_of({"-np", "2"}), HasSubstr("which program"));
  EXPECT_THAT(error_of({"--frobnicate", "-np", "2", "p"}),
              AllOf(HasSubstr("--frobnicate"), HasSubstr("--help")));
  EXPECT_THAT(error_of({"--num", "2", "p"}), HasSubstr("--num")) << "no guessing of shortened names";
}

TEST(Options, ProgramsThatCannotBeStarted) {
  EXPECT_NO_THROW(check_program("/bin/sh"));
  EXPECT_NO_THROW(check_program("sh"));
  EXPECT_THROW(check_program("/no/such/program"), UsageError);
  EXPECT_THROW(check_program("no-such-program-anywhere"), UsageError);
  EXPECT_THROW(check_program("/tmp"), UsageError);
  EXPECT_THROW(check_program("/etc/passwd"), UsageError);
}

}  // namespace
}  // namespace rueda
