// SPDX-License-Identifier: Apache-2.0
// What stands on the page, and that nothing of a summary becomes HTML. How it looks in a browser:
// tests/python.
#include "examples/04_report/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "examples/04_report/html_text.h"
#include "tests/support/scratch_folder.h"

namespace rueda::examples::report {
namespace {

using testing::HasSubstr;
using testing::Not;

RunRecord run(const std::string& label, std::int64_t ranks, double samples_per_s) {
  RunRecord record;
  record.label = label;
  record.task = "squad";
  record.ranks = ranks;
  record.steps = 40;
  record.sync = "every_step";
  record.samples_per_s = samples_per_s;
  record.curve["loss"] = {{1, std::nullopt, 4.0}, {40, std::nullopt, 0.5}};
  return record;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Page, DrawsACurvePerRunAndScalingBesideWhatWasPublished) {
  const std::string html = page_html({run("alone", 1, 10), run("both", 2, 18)});
  EXPECT_EQ(count(html, "<figure"), 3u);             // loss, time, efficiency
  EXPECT_EQ(count(html, "data-curve"), 2u + 2 * 6);  // two runs; one series, four published, the ideal
  EXPECT_THAT(html, HasSubstr("90.0\u00a0%"));
  EXPECT_THAT(html, HasSubstr("Determined AI"));
  EXPECT_THAT(html, Not(HasSubstr("Synchronising less often")));
  EXPECT_EQ(html, page_html({run("alone", 1, 10), run("both", 2, 18)}));
}

TEST(Page, SaysWhichRunHasNoCurve) {
  RunRecord bare = run("bare", 1, 10);
  bare.curve.clear();
  const std::string html = page_html({bare});
  EXPECT_THAT(html, HasSubstr("No curve in the summary of: bare."));
  EXPECT_EQ(count(html, "<figure"), 0u);
}

TEST(Page, SaysHowManyPassesAStepHas) {
  RunRecord several = run("several", 2, 18);
  several.passes = 4;
  const std::string html = page_html({run("both", 2, 10), several});
  EXPECT_THAT(html, HasSubstr("every_step, 4 passes"));
  EXPECT_THAT(html, HasSubstr("Synchronising less often"));
}

TEST(Page, SaysOnWhichDeviceARunComputed) {
  RunRecord there = run("there", 2, 180);
  EXPECT_THAT(page_html({there}), Not(HasSubstr(">Device</th>"))) << "older summaries have none";
  there.device = "cuda";
  const std::string html = page_html({run("here", 2, 10), there});
  EXPECT_THAT(html, HasSubstr(">Device</th>"));
  EXPECT_THAT(html, HasSubstr(">cuda</td>"));
}

TEST(Page, GroupsByTask) {
  RunRecord other = run("other", 2, 18);
  other.task = "distill";
  const std::string html = page_html({run("a", 1, 10), other, run("b", 1, 10)});
  EXPECT_EQ(count(html, "<h2>"), 2u);
  // One rank of one task and two of another do not scale.
  EXPECT_THAT(html, Not(HasSubstr("<h3>Scaling</h3>")));
}

TEST(Page, WhatIsNotFiniteIsLeftOut) {
  RunRecord wild = run("wild", 1, 10);
  wild.curve["loss"] = {{1, std::nullopt, 1e308}, {2, std::nullopt, -1e308}, {3, std::nullopt, HUGE_VAL}};
  const std::string html = page_html({wild});
  EXPECT_THAT(html, Not(HasSubstr("nan")));
  EXPECT_EQ(count(html, "data-curve"), 1u);
}

TEST(Page, NothingOfASummaryBecomesHtml) {
  const std::string hostile = "</script><script>alert(1)</script>\"'&";
  RunRecord record = run(hostile, 1, 10);
  record.task = record.sync = record.optimizer = record.device = record.stopped = hostile;
  record.results = {{hostile, 1.0}};
  record.curve[hostile] = record.curve["loss"];
  record.evaluations[hostile] = record.curve["loss"];
  record.wait_ms = record.compute_ms = 1;
  const std::string html = page_html({record, record});
  EXPECT_THAT(html, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(html, HasSubstr(escaped(hostile)));
  EXPECT_EQ(count(html, "<script>"), 1u);
}

TEST(Page, IsWrittenWholeOrNotAtAll) {
  ScratchFolder scratch;
  const std::filesystem::path page = scratch.write("page.html", "old");
  write_page(page, "new");
  EXPECT_EQ(std::filesystem::file_size(page), 3u);
  const std::filesystem::path nowhere = scratch.path() / "none" / "page.html";
  EXPECT_EQ(error_message([&] { write_page(nowhere, "new"); }),
            "cannot write '" + nowhere.string() + "': No such file or directory");
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path())) files += entry.exists();
  EXPECT_EQ(files, 1u);
}

}  // namespace
}  // namespace rueda::examples::report
