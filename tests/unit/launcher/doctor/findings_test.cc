// SPDX-License-Identifier: Apache-2.0
// What a user and a program read of the findings.
#include "launcher/doctor/findings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/unit/launcher/doctor/facts.h"

namespace rueda {
namespace {

using State = Finding::State;

std::vector<Finding> some() {
  return {{State::error, "hosts", {"h2"}, "It is gone.", "Start it."},
          {State::ok, "cores", {"h0"}, "8 cores.", ""},
          {State::ok, "cores", {"h1"}, "8 cores.", ""},
          {State::warning, "memory", {"h1"}, "1 MiB.", "Buy more."}};
}

TEST(Findings, AreMergedAndTheWorstStandLast) {
  const std::vector<Finding> all = in_order(some());
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].hosts, (std::vector<std::string>{"h0", "h1"}));
  EXPECT_EQ(all[1].state, State::warning);
  EXPECT_EQ(all[2].state, State::error);
  EXPECT_TRUE(has_error(all));
  EXPECT_FALSE(has_error({all[0], all[1]}));
}

TEST(Findings, AreALineEach) {
  EXPECT_EQ(to_text(in_order(some()), 3),
            "ok       h0,h1  8 cores.\n"
            "warning  h1     1 MiB. Remedy: Buy more.\n"
            "error    h2     It is gone. Remedy: Start it.\n"
            "1 error, 1 warning, 1 ok on 3 hosts.\n");
  EXPECT_EQ(to_text({in_order(some())[0]}, 2),
            "ok       all hosts  8 cores.\n0 errors, 0 warnings, 1 ok on 2 hosts.\n");
  const Finding many{State::ok, "x", {"a", "b", "c", "d", "e", "f"}, "So.", ""};
  EXPECT_NE(to_text({many}, 9).find("a,b,c,d and 2 more  So."), std::string::npos);
}

TEST(Findings, WriteNoControlCharacters) {
  EXPECT_EQ(printable_line("Permission denied.\r\n"), "Permission denied.");
  EXPECT_EQ(printable_line("a\x1b[2Jb\tc\x7f"), "a?[2Jb?c?");
  const Finding said{State::error, "hosts", {"h0"}, "It says \x1b]0;x\r.", "So\n."};
  EXPECT_EQ(to_text({said}, 1).find_first_of("\x1b\r"), std::string::npos);
  EXPECT_EQ(std::ranges::count(to_text({said}, 1), '\n'), 2);
}

TEST(Findings, AreJsonWithTheFiguresOfAllLinks) {
  Examination job = good_job(2);
  job.hosts[1].facts.reset();
  std::vector<Finding> findings = in_order(some());
  findings[0].sentence = "\xff";  // another host may say anything
  const auto json = nlohmann::json::parse(to_json(findings, job));
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["hosts"][1]["answered"], false);
  EXPECT_EQ(json["findings"].size(), 3u);
  EXPECT_EQ(json["findings"][1]["state"], "warning");
  EXPECT_EQ(json["findings"][1]["remedy"], "Buy more.");
  EXPECT_EQ(json["findings"][2]["hosts"][0], "h2");
  EXPECT_EQ(json["links"].size(), 2u);
  EXPECT_EQ(json["links"][0]["from_card"], "eth0");
  EXPECT_EQ(json["links"][0]["sent_bytes_per_second"], 125'000'000);
}

}  // namespace
}  // namespace rueda
