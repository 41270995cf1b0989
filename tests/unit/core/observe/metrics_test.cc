// SPDX-License-Identifier: Apache-2.0
// Counters, and the text that other programs read.
#include "core/observe/metrics.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "core/observe/metrics_file.h"
#include "core/observe/rank_file.h"
#include "tests/support/scratch_folder.h"

namespace rueda {
namespace {

// Reads the text format line by line: sample -> value. Fails on a line that is not of the format, on a sample
// without its family's TYPE before it, and on one that comes twice.
std::map<std::string, double> parse(const std::string& text) {
  static const std::regex help(R"(# HELP (rueda_[a-z_]+) [^\n]+)");
  static const std::regex type(R"(# TYPE (rueda_[a-z_]+) (counter|gauge|histogram))");
  static const std::regex sample(
      R"re((rueda_[a-z_]+)(\{([a-z_]+="([^"\\]|\\["\\n])*"(,[a-z_]+="([^"\\]|\\["\\n])*")*)\}) ([-+0-9.e]+))re");
  std::map<std::string, double> samples;
  std::map<std::string, std::string> types;
  std::istringstream lines(text);
  EXPECT_EQ(text.back(), '\n');
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, help)) continue;
    if (std::regex_match(line, match, type)) {
      EXPECT_TRUE(types.emplace(match[1], match[2]).second) << line;
      continue;
    }
    if (!std::regex_match(line, match, sample)) {
      ADD_FAILURE() << "not of the format: " << line;
      continue;
    }
    const std::string name = match[1];
    const std::string family = std::regex_replace(name, std::regex("_(bucket|sum|count)$"), "");
    EXPECT_TRUE(types.contains(name) || types[family] == "histogram") << line;
    EXPECT_TRUE(samples.emplace(name + match[2].str(), std::stod(match[7])).second) << line;
  }
  return samples;
}

TEST(Metrics, CountsByOperation) {
  Metrics metrics;
  metrics.begin(1, 4, "host", 1000);
  metrics.completed(Operation::allreduce, 400, true);
  metrics.completed(Operation::allreduce, 600, true);
  metrics.completed(Operation::broadcast, 50, false);
  const auto samples = parse(to_prometheus_text(metrics.snapshot()));
  EXPECT_EQ(samples.at(R"(rueda_operations_total{rank="1",operation="allreduce",result="completed"})"), 2);
  EXPECT_EQ(samples.at(R"(rueda_operations_total{rank="1",operation="broadcast",result="failed"})"), 1);
  EXPECT_EQ(samples.at(R"(rueda_bytes_total{rank="1",operation="allreduce"})"), 1000);
  EXPECT_EQ(samples.at(R"(rueda_bytes_total{rank="1",operation="broadcast"})"), 0);
}

TEST(Metrics, HistogramsAreCumulative) {
  Metrics metrics;
  metrics.begin(0, 1, "host", 0);
  metrics.negotiation.add(5'000);       // 5 us
  metrics.negotiation.add(10'000);      // on a bound: counts as below it
  metrics.negotiation.add(30'000'000);  // 30 ms
  metrics.negotiation.add(60'000'000'000);
  metrics.negotiation.add(-5);  // a clock that is not quite monotonic counts as 0
  const auto samples = parse(to_prometheus_text(metrics.snapshot()));
  auto bucket = [&](const std::string& bound) {
    return samples.at("rueda_negotiation_seconds_bucket{rank=\"0\",le=\"" + bound + "\"}");
  };
  EXPECT_EQ(bucket("1e-05"), 3);
  EXPECT_EQ(bucket("0.02"), 3);
  EXPECT_EQ(bucket("0.05"), 4);
  EXPECT_EQ(bucket("10"), 4);
  EXPECT_EQ(bucket("+Inf"), 5);
  EXPECT_EQ(samples.at("rueda_negotiation_seconds_count{rank=\"0\"}"), 5);
  EXPECT_NEAR(samples.at("rueda_negotiation_seconds_sum{rank=\"0\"}"), 60.030015, 1e-6);
}

TEST(Metrics, NameTheSlowRank) {
  Metrics metrics;
  metrics.begin(0, 4, "host", 0);
  metrics.waited_for(3, 0.5);
  metrics.waited_for(1, 0.1);
  metrics.waited_for(3, 0.25);
  const MetricsSnapshot snapshot = metrics.snapshot();
  ASSERT_EQ(snapshot.waited_for.size(), 2u);
  EXPECT_EQ(snapshot.waited_for[0].rank, 3);
  EXPECT_EQ(snapshot.waited_for[0].times, 2u);
  EXPECT_DOUBLE_EQ(snapshot.waited_for[0].seconds, 0.75);
  const auto samples = parse(to_prometheus_text(snapshot));
  EXPECT_EQ(samples.at(R"(rueda_waited_for_total{rank="0",slow_rank="3"})"), 2);
  EXPECT_DOUBLE_EQ(samples.at(R"(rueda_waited_for_seconds_total{rank="0",slow_rank="1"})"), 0.1);
}

TEST(Metrics, KnowHowFullBuffersWere) {
  Metrics metrics;
  metrics.begin(0, 2, "host", 1 << 20);
  metrics.plan_started(1, 0);
  metrics.plan_started(10, 1 << 19);
  metrics.plan_ended();
  const auto samples = parse(to_prometheus_text(metrics.snapshot()));
  EXPECT_EQ(samples.at("rueda_plans_total{rank=\"0\"}"), 2);
  EXPECT_EQ(samples.at("rueda_fused_plans_total{rank=\"0\"}"), 1);
  EXPECT_EQ(samples.at("rueda_fused_tensors_total{rank=\"0\"}"), 10);
  EXPECT_EQ(samples.at("rueda_fused_bytes_total{rank=\"0\"}"), 1 << 19);
  EXPECT_EQ(samples.at("rueda_fusion_threshold_bytes{rank=\"0\"}"), 1 << 20);
  EXPECT_EQ(samples.at("rueda_works_in_flight{rank=\"0\"}"), 1);
  EXPECT_EQ(samples.at("rueda_works_in_flight_most{rank=\"0\"}"), 2);
}

TEST(Metrics, TellHowAnElasticJobHasChanged) {
  Metrics metrics;
  metrics.begin(0, 2, "host", 1024);
  EXPECT_EQ(to_prometheus_text(metrics.snapshot()).find("generations_total"), std::string::npos);
  metrics.use({.generations = 3, .lost = 1, .joined = 2, .seconds_standing_still = 0.25});
  const auto samples = parse(to_prometheus_text(metrics.snapshot()));
  EXPECT_EQ(samples.at("rueda_generations_total{rank=\"0\"}"), 3);
  EXPECT_EQ(samples.at("rueda_workers_lost_total{rank=\"0\"}"), 1);
  EXPECT_EQ(samples.at("rueda_workers_joined_total{rank=\"0\"}"), 2);
  EXPECT_EQ(samples.at("rueda_standing_still_seconds_total{rank=\"0\"}"), 0.25);
}

TEST(Metrics, LabelsAreEscaped) {
  Metrics metrics;
  metrics.begin(0, 1, "a \"b\" \\ c\nd", 0);
  const std::string text = to_prometheus_text(metrics.snapshot());
  parse(text);
  EXPECT_THAT(text, testing::HasSubstr(R"(host="a \"b\" \\ c\nd")"));
}

TEST(Metrics, AnyThreadMayLookWhileTheCoordinatorCounts) {
  Metrics metrics;
  metrics.begin(0, 2, "host", 0);
  std::thread engine([&] {
    for (int i = 0; i < 20000; ++i) {
      metrics.completed(Operation::allreduce, 4, true);
      metrics.waited_for(1, 1e-6);
      metrics.data.add(i);
    }
  });
  std::uint64_t last = 0;
  while (last < 20000) {
    const std::uint64_t now = metrics.snapshot().operations[0].completed;
    EXPECT_GE(now, last);
    last = now;
  }
  engine.join();
  EXPECT_EQ(metrics.snapshot().data.count, 20000u);
}

TEST(MetricsFile, IsWrittenAtOnceAgainAndAtTheEnd) {
  ScratchFolder folder;
  const std::string path = (folder.path() / "metrics.prom").string();
  std::atomic<int> calls{0};
  {
    MetricsFile file(
        path, [&] { return "call " + std::to_string(++calls) + "\n"; }, std::chrono::milliseconds(1));
    while (calls.load() < 3) std::this_thread::yield();
  }
  EXPECT_EQ(content_of(path), "call " + std::to_string(calls.load()) + "\n");
  const std::filesystem::directory_iterator files(folder.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);  // nothing of the way there
}

// Somebody else may have left a link in a folder that all may write to.
TEST(MetricsFile, ALinkIsNotFollowed) {
  ScratchFolder folder;
  const std::string path = (folder.path() / "metrics.prom").string();
  const std::filesystem::path precious = folder.write("precious", "kept");
  for (const char* ending : {"", ".new", ".tmp"}) std::filesystem::create_symlink(precious, path + ending);
  {
    const MetricsFile file(
        path, [] { return "numbers\n"; }, std::chrono::milliseconds(1));
  }
  EXPECT_EQ(content_of(precious.string()), "kept");
  EXPECT_EQ(content_of(path), "numbers\n");
}

TEST(MetricsFile, AFolderThatIsMissingDoesNoHarm) {
  ScratchFolder folder;
  std::atomic<int> calls{0};
  MetricsFile file((folder.path() / "no/such/metrics.prom").string(), [&] { return std::to_string(++calls); },
                   std::chrono::milliseconds(1));
  while (calls.load() < 2) std::this_thread::yield();
}

TEST(RankFile, EveryRankHasItsOwn) {
  EXPECT_EQ(path_of_rank("a/trace.json", 0), "a/trace.json");
  EXPECT_EQ(path_of_rank("a/trace.json", 12), "a/trace.rank12.json");
  EXPECT_EQ(path_of_generation("a/trace.json", 0), "a/trace.json");
  EXPECT_EQ(path_of_generation("a/trace.json", 2), "a/trace.generation2.json");
  EXPECT_EQ(path_of_rank(path_of_generation("a/%r/trace.json", 2), 1), "a/1/trace.generation2.json");
  EXPECT_EQ(path_of_rank("a.b/trace", 1), "a.b/trace.rank1");
  EXPECT_EQ(path_of_rank(".hidden", 1), ".hidden.rank1");
  EXPECT_EQ(path_of_rank("trace", 1), "trace.rank1");
  EXPECT_EQ(path_of_rank("%r/t.%r.json", 0), "0/t.0.json");
  EXPECT_EQ(path_of_rank("%r/t.%r.json", 12), "12/t.12.json");
}

}  // namespace
}  // namespace rueda
