// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/page_options.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "launcher/cli/options.h"
#include "tests/support/scratch_folder.h"

namespace rueda {
namespace {

LaunchOptions parsed(const std::vector<std::string>& words) { return parse_launch_options(words); }

TEST(PageOptions, ThePageIsOnUnlessItIsNot) {
  const LaunchOptions::Page page = parsed({"-np", "1", "prog"}).page;
  EXPECT_TRUE(page.is_wanted);
  EXPECT_FALSE(page.is_given);
  EXPECT_EQ(page.host, "127.0.0.1");
  EXPECT_EQ(page.port, 0);
  EXPECT_FALSE(parsed({"--no-page", "-np", "1", "prog"}).page.is_wanted);
}

TEST(PageOptions, TakesAPortOrAHostAndAPort) {
  LaunchOptions::Page page = parsed({"--page", "8080", "-np", "1", "prog"}).page;
  EXPECT_TRUE(page.is_given);
  EXPECT_EQ(page.host, "127.0.0.1");
  EXPECT_EQ(page.port, 8080);
  page = parsed({"--page", "node3:0", "-np", "1", "prog"}).page;
  EXPECT_EQ(page.host, "node3");
  EXPECT_EQ(parsed({"--page", "[::1]:80", "-np", "1", "prog"}).page.host, "::1");
  for (const char* text : {"x", "70000", "-1", ":80", "a:", "1.5"})
    EXPECT_THROW(parsed({"--page", text, "-np", "1", "prog"}), UsageError) << text;
}

TEST(PageOptions, StatusTakesAProcessNumber) {
  LaunchOptions options = parsed({"--status"});
  EXPECT_EQ(options.action, LaunchOptions::Action::status);
  EXPECT_TRUE(options.command.empty());
  options = parsed({"--status", "123", "--json"});
  EXPECT_EQ(options.command, std::vector<std::string>{"123"});
  EXPECT_TRUE(options.json);
  EXPECT_TRUE(parsed({"--json", "--status", "123"}).json);
  for (const char* text : {"x", "0", "-5x"}) EXPECT_THROW(parsed({"--status", text}), UsageError) << text;
  EXPECT_THROW(parsed({"--status", "1", "2"}), UsageError);
  EXPECT_THROW(parsed({"--json", "-np", "1", "prog"}), UsageError);
}

TEST(PageOptions, ReportsTakeSummariesAndLabels) {
  const LaunchOptions options =
      parsed({"--report", "out.html", "a/summary.json", "b.json", "--labels", "first", "--second"});
  EXPECT_EQ(options.action, LaunchOptions::Action::report);
  EXPECT_EQ(options.report.file, "out.html");
  EXPECT_EQ(options.command, (std::vector<std::string>{"a/summary.json", "b.json"}));
  EXPECT_EQ(options.report.labels, (std::vector<std::string>{"first", "--second"}));
  EXPECT_TRUE(parsed({"--report", "out.html", "a.json"}).report.labels.empty());
}

TEST(PageOptions, ReportsTakeAJob) {
  const LaunchOptions options = parsed({"--report", "out.html", "-np", "2", "prog", "a.json"});
  EXPECT_EQ(options.action, LaunchOptions::Action::launch);
  EXPECT_EQ(options.report.file, "out.html");
  EXPECT_EQ(options.command, (std::vector<std::string>{"prog", "a.json"}));
  EXPECT_EQ(parsed({"--report", "out.html", "--min-np", "1", "-np", "2", "prog"}).action,
            LaunchOptions::Action::launch);
}

TEST(PageOptions, ReportsOfNothingOrNowhereAreRefused) {
  using Words = std::vector<std::string>;
  for (const Words& words :
       {Words{"--report", "out.html"}, Words{"--report", "out.json", "a.json"},
        Words{"--report", "", "a.json"}, Words{"--report", "out.html", "a.json", "b.txt"},
        Words{"--report", "out.html", "a.json", "--labels"},
        Words{"--report", "out.html", "a.json", "--labels", "x", "y"},
        Words{"--report", "out.html", "--labels", "x", "a.json"},
        Words{"--report", "/none/out.html", "-np", "1", "prog"},
        Words{"--report", "/proc/out.html", "-np", "1", "prog"}, Words{"--report", "out.html", "prog"},
        Words{"--report", "", "-np", "1", "prog"}, Words{"--doctor", "--report", "out.html"}})
    EXPECT_THROW(parsed(words), UsageError) << words.back();
  const ScratchFolder scratch;
  const std::string folder = scratch.path() / "out.html";
  EXPECT_EQ(parsed({"--report", folder, "-np", "1", "prog"}).report.file, folder);
  std::filesystem::create_directory(folder);
  EXPECT_THROW(parsed({"--report", folder, "-np", "1", "prog"}), UsageError);
}

// The user has forgotten either the number of ranks, or the end of the name.
TEST(PageOptions, AFileThatIsNoSummaryIsToldAsOne) {
  const std::string text = error_message([] { parsed({"--report", "out.html", "x.txt"}); });
  EXPECT_TRUE(text.starts_with("say how many ranks to start with -np N")) << text;
  EXPECT_NE(text.find("summaries, which end in .json"), std::string::npos) << text;
  EXPECT_EQ(error_message([] { parsed({"prog"}); }).find("summaries"), std::string::npos);
}

TEST(PageOptions, FoldersStayAsTheyAre) {
  const ScratchFolder scratch;
  const std::string report = scratch.path() / "out.html", dumps = scratch.path() / "dumps/of/mine";
  parsed({"--report", report, "--dump-folder", dumps, "-np", "1", "prog"});
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(PageOptions, StacksTakeAProcessNumber) {
  LaunchOptions options = parsed({"--stacks"});
  EXPECT_EQ(options.action, LaunchOptions::Action::stacks);
  EXPECT_FALSE(options.verbose);
  options = parsed({"--stacks", "123", "--verbose", "--json"});
  EXPECT_EQ(options.command, std::vector<std::string>{"123"});
  EXPECT_TRUE(options.verbose && options.json);
  EXPECT_TRUE(parsed({"--verbose", "--stacks", "123"}).verbose);
  for (const char* text : {"x", "0", "--no"}) EXPECT_THROW(parsed({"--stacks", text}), UsageError) << text;
  EXPECT_THROW(parsed({"--status", "1", "--verbose"}), UsageError);
}

TEST(PageOptions, DumpTakesAProcessNumber) {
  EXPECT_EQ(parsed({"--dump"}).action, LaunchOptions::Action::dump);
  EXPECT_EQ(parsed({"--dump", "123"}).command, std::vector<std::string>{"123"});
  for (const char* text : {"x", "0"}) EXPECT_THROW(parsed({"--dump", text}), UsageError) << text;
  EXPECT_THROW(parsed({"--dump", "1", "2"}), UsageError);
  EXPECT_EQ(parsed({"-np", "1", "prog"}).dump_folder, "");
  EXPECT_EQ(parsed({"--dump-folder", "a/b", "-np", "1", "prog"}).dump_folder, "a/b");
  for (const char* folder : {"", "/dev/null", "/dev/null/dumps", "/proc/dumps"})
    EXPECT_THROW(parsed({"--dump-folder", folder, "-np", "1", "prog"}), UsageError) << folder;
}

}  // namespace
}  // namespace rueda
