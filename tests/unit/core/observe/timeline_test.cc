// SPDX-License-Identifier: Apache-2.0
// From events to a file that viewers load.
#include "core/observe/timeline.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/observe/recorder_page.h"
#include "core/observe/timeline_merge.h"
#include "tests/support/scratch_folder.h"

namespace rueda {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

TraceEvent event_of(TraceEvent::Kind kind, std::int64_t time_ns, std::uint64_t ticket = 0,
                    std::uint64_t plan = 0, std::string_view text = {}) {
  TraceEvent event;
  event.kind = kind;
  event.time_ns = time_ns;
  event.ticket = ticket;
  event.plan = plan;
  if (kind == TraceEvent::Kind::phase) {
    event.phase = text;
  } else {
    event.set_name(text);
  }
  return event;
}

using Kind = TraceEvent::Kind;

// What is written for `events`, as "B name @microseconds" and "E @microseconds" by the label of the row.
std::map<std::string, std::vector<std::string>> rows_of(const std::vector<json>& events) {
  std::map<int, std::string> labels;
  std::map<std::string, std::vector<std::string>> rows;
  for (const json& event : events) {
    const std::string kind = event.at("ph");
    if (kind == "M") {
      if (event.at("name") == "thread_name") labels[event.at("tid")] = event.at("args").at("name");
      continue;
    }
    const std::string name = event.contains("name") ? " " + event.at("name").get<std::string>() : "";
    rows[labels[event.at("tid")]].push_back(
        fmt::format("{}{} @{:.3f}", kind, name, event.at("ts").get<double>()));
  }
  return rows;
}

std::vector<json> parsed(const std::string& elements) {
  return json::parse("[" + elements.substr(std::min<std::size_t>(1, elements.size())) + "]");
}

std::vector<json> written(TraceJson& text, const std::vector<TraceEvent>& events) {
  std::string lines;
  for (const TraceEvent& event : events) text.add(event, lines);
  return parsed(lines);
}

TEST(TraceJson, ShowsTheLifeOfATensor) {
  TraceJson text({0, 1, "host", 1, 0, 0, 0});
  const auto rows = rows_of(written(
      text, {event_of(Kind::submitted, 1000, 5, 0, "x"), event_of(Kind::submitted, 1500, 6, 0, "allreduce.y"),
             event_of(Kind::planned, 2000, 5, 9), event_of(Kind::planned, 2000, 6, 9),
             event_of(Kind::phase, 3000, 0, 9, "packing tensors"),
             event_of(Kind::phase, 4000, 0, 9, "reducing around the ring"),
             event_of(Kind::phase, 5000, 0, 9, "unpacking tensors"), event_of(Kind::ended, 6001, 5),
             event_of(Kind::ended, 7000, 6)}));
  EXPECT_THAT(rows.at("allreduce.x"),
              ElementsAre("B NEGOTIATE_ALLREDUCE @1.000", "E @2.000", "B ALLREDUCE @2.000",
                          "B WAITING @2.000", "E @3.000", "B PACK @3.000", "E @4.000", "B REDUCE @4.000",
                          "E @5.000", "B UNPACK @5.000", "E @6.001", "E @6.001"));
  EXPECT_EQ(rows.at("allreduce.y").size(), 12u);
}

TEST(TraceJson, ClocksOfAllRanksAreThatOfRankZero) {
  TraceJson text({3, 4, "host", 1, 500, 100, 0});
  const auto events = written(text, {event_of(Kind::cycle, 1000), event_of(Kind::cycle, -401)});
  EXPECT_DOUBLE_EQ(events[0].at("ts"), 1.4);
  EXPECT_DOUBLE_EQ(events[1].at("ts"), -0.001);
  EXPECT_EQ(events[0].at("pid"), 3);
  EXPECT_EQ(events[0].at("name"), "CYCLE_START");
}

TEST(TraceJson, AnErrorEndsWhatHasBegun) {
  TraceJson text({0, 1, "host", 1, 0, 0, 0});
  TraceEvent failed = event_of(Kind::ended, 3000, 1);
  failed.ok = false;
  const auto events = written(text, {event_of(Kind::submitted, 1000, 1, 0, "x"), failed});
  EXPECT_EQ(events.back().at("ph"), "E");
  EXPECT_EQ(events.back().at("args").at("failed"), true);
}

TEST(TraceJson, AfterALossAllRowsBeginAnew) {
  TraceJson text({0, 1, "host", 1, 0, 0, 0});
  TraceEvent next = event_of(Kind::submitted, 9000, 2, 0, "x");
  next.lost_before = 17;
  const auto events =
      written(text, {event_of(Kind::submitted, 1000, 1, 0, "x"), event_of(Kind::planned, 2000, 1, 4), next,
                     event_of(Kind::phase, 9500, 0, 4, "packing tensors"), event_of(Kind::ended, 9600, 1),
                     event_of(Kind::ended, 9999, 2)});
  const auto rows = rows_of(events);
  EXPECT_THAT(rows.at("allreduce.x"), ElementsAre("B NEGOTIATE_ALLREDUCE @1.000", "E @2.000",
                                                  "B ALLREDUCE @2.000", "B WAITING @2.000", "E @9.000",
                                                  "E @9.000", "B NEGOTIATE_ALLREDUCE @9.000", "E @9.999"));
  const auto lost = std::ranges::find_if(
      events, [](const json& event) { return event.value("name", "") == "EVENTS_LOST"; });
  ASSERT_NE(lost, events.end());
  EXPECT_EQ(lost->at("args").at("count"), 17);
}

TEST(TraceJson, NamesMayHoldAnyBytes) {
  TraceJson text({0, 1, "a \"host\"\n", 1, 0, 0, 0});
  EXPECT_EQ(parsed(text.begin(1)).at(0).at("args").at("host"), "a \"host\"\n");
  const auto events =
      written(text, {event_of(Kind::submitted, 0, 1, 0, "quote \" \\ \n \xff gr\xc3\xbc\xc3\x9f"),
                     event_of(Kind::submitted, 0, 2, 0, std::string(500, 'n'))});
  EXPECT_THAT(events[0].at("args").at("name").get<std::string>(), HasSubstr("gr\xc3\xbc\xc3\x9f"));
  EXPECT_LT(events[2].at("args").at("name").get<std::string>().size(), 130u);
}

TEST(TraceJson, EndlesslyManyNamesShareRows) {
  TraceJson text({0, 1, "host", 1, 0, 0, 0});
  std::string lines;
  int highest = 0;
  for (std::uint64_t i = 0; i < 2 * TraceJson::kMostRows; ++i) {
    lines.clear();
    text.add(event_of(Kind::submitted, 0, i, 0, "x" + std::to_string(i)), lines);
    text.add(event_of(Kind::ended, 0, i), lines);
    for (const json& event : parsed(lines)) highest = std::max(highest, event.at("tid").get<int>());
  }
  EXPECT_EQ(highest, static_cast<int>(TraceJson::kMostRows) + 1);
}

TEST(TraceJson, APhaseWithoutAUsualNameKeepsItsWords) {
  EXPECT_EQ(phase_name("waiting at a barrier"), "WAITING AT A BARRIER");
  EXPECT_EQ(phase_name("packing"), "PACK");
}

TEST(EventRing, LosesAndCountsWhatDoesNotFit) {
  EventRing ring(4);
  for (int i = 0; i < 7; ++i) EXPECT_EQ(ring.push(event_of(Kind::cycle, i)), i < 4);
  EXPECT_EQ(ring.lost(), 3u);
  std::vector<std::int64_t> times;
  EXPECT_EQ(ring.pop_all([&](const TraceEvent& event) { times.push_back(event.time_ns); }), 4u);
  EXPECT_THAT(times, ElementsAre(0, 1, 2, 3));
  ASSERT_TRUE(ring.push(event_of(Kind::cycle, 8)));
  ASSERT_TRUE(ring.push(event_of(Kind::cycle, 9)));
  std::vector<std::uint32_t> lost_before;
  ring.pop_all([&](const TraceEvent& event) { lost_before.push_back(event.lost_before); });
  EXPECT_THAT(lost_before, ElementsAre(3, 0));
}

TEST(EventRing, EveryEventArrivesOrIsCounted) {
  EventRing ring(64);
  constexpr std::uint64_t kEvents = 100000;
  std::atomic<bool> done{false};
  std::thread engine([&] {
    for (std::uint64_t i = 0; i < kEvents; ++i)
      ring.push(event_of(Kind::submitted, 0, i, 0, std::to_string(i)));
    done = true;
  });
  std::uint64_t arrived = 0, lost = 0, next = 0;
  for (bool last = false; !last;) {
    last = done;
    ring.pop_all([&](const TraceEvent& event) {
      ASSERT_EQ(event.name(), std::to_string(event.ticket));
      ASSERT_EQ(event.ticket, next + event.lost_before);
      next = event.ticket + 1;
      lost += event.lost_before;
      ++arrived;
    });
  }
  engine.join();
  EXPECT_EQ(arrived + ring.lost(), kEvents);
  EXPECT_LE(lost, ring.lost());
}

TEST(TraceFile, IsJsonAfterEveryAppend) {
  ScratchFolder folder;
  const std::string path = folder.path() / "trace.json";
  TraceFile file;
  ASSERT_TRUE(file.open(path).ok());
  EXPECT_EQ(json::parse(content_of(path)), json::array());
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(file.append(",\n{\"a\":1},\n{\"b\":2}").ok());
    EXPECT_EQ(json::parse(content_of(path)).size(), 2u * static_cast<unsigned>(i));
  }
}

TEST(TraceFile, SaysWhyItCannotBeWritten) {
  TraceFile file;
  const Status status = file.open("/no/such/folder/trace.json");
  EXPECT_EQ(status.code, StatusCode::invalid_argument);
  EXPECT_THAT(status.message, HasSubstr("'/no/such/folder/trace.json': No such file or directory"));
}

TEST(TraceFile, AFullDiskIsAnError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  TraceFile file;
  EXPECT_THAT(file.open("/dev/full").message, HasSubstr("No space left on device"));
}

TraceIdentity trace_identity(Rank rank, Rank size, std::int64_t epoch_us = 77) {
  return {rank, size, "host", 100 + rank, 0, 0, epoch_us};
}

TEST(Timeline, WritesOnItsOwnThreadUntilItIsStopped) {
  ScratchFolder folder;
  const std::string path = folder.path() / "trace.json";
  Timeline timeline;
  timeline.set_identity(trace_identity(0, 1));
  EXPECT_FALSE(timeline.tracing());
  EXPECT_TRUE(timeline.stop().ok());
  ASSERT_TRUE(timeline.start(path, true).ok());
  EXPECT_TRUE(timeline.tracing() && timeline.marks_cycles());
  const Status again = timeline.start(path, true);
  EXPECT_EQ(again.code, StatusCode::invalid_argument);
  EXPECT_THAT(again.message, HasSubstr("Call stop_timeline() first"));
  for (int i = 0; i < 3000; ++i) timeline.push(event_of(Kind::cycle, i));
  ASSERT_TRUE(timeline.stop().ok());
  EXPECT_FALSE(timeline.tracing());
  const json events = json::parse(content_of(path));
  EXPECT_EQ(
      std::ranges::count_if(events, [](const json& event) { return event.at("name") == "CYCLE_START"; }),
      3000);
  EXPECT_THAT(content_of(path), HasSubstr("start_time_since_epoch_in_micros"));
  ASSERT_TRUE(timeline.start(path, false).ok());  // again, in the same job
  EXPECT_FALSE(timeline.marks_cycles());
  ASSERT_TRUE(timeline.stop().ok());
  EXPECT_EQ(read_timeline_header(path)->session, 2u);
}

// Writes the timeline of one rank with one event.
std::string write_part(const ScratchFolder& folder, const std::string& name, const TraceIdentity& identity) {
  std::string path = folder.path() / name;
  TraceFile file;
  TraceJson text(identity);
  std::string lines = text.begin(1);
  text.add(event_of(Kind::submitted, 1000 * identity.rank, 1, 0, "x"), lines);
  lines += text.end(0);
  EXPECT_TRUE(file.open(path).ok() && file.append(lines).ok());
  return path;
}

TEST(TimelineMerge, PutsAllRanksIntoOneFile) {
  ScratchFolder folder;
  const std::vector<std::string> parts{write_part(folder, "b", trace_identity(2, 3)),
                                       write_part(folder, "a", trace_identity(0, 3)),
                                       write_part(folder, "c", trace_identity(1, 3))};
  ASSERT_TRUE(merge_timelines(parts[0], parts).ok());  // into one of them
  const json events = json::parse(content_of(parts[0]));
  std::vector<int> ranks;
  for (const json& event : events) {
    if (event.at("ph") == "B") ranks.push_back(event.at("pid"));
  }
  EXPECT_THAT(ranks, ElementsAre(0, 1, 2));
  // What is merged cannot be merged again by mistake.
  EXPECT_THAT(merge_timelines(folder.path() / "out", parts).message,
              HasSubstr("is not the timeline of one rank"));
}

TEST(TimelineMerge, ATornFileGivesItsWholeLines) {
  ScratchFolder folder;
  const std::vector<std::string> parts{write_part(folder, "a", trace_identity(0, 2)),
                                       write_part(folder, "b", trace_identity(1, 2))};
  EXPECT_TRUE(timeline_ended(parts[1]));
  std::string torn = content_of(parts[1]);
  torn.resize(torn.find("rueda_timeline_end"));
  folder.write("b", torn);
  EXPECT_FALSE(timeline_ended(parts[1]));
  const std::string out = folder.path() / "out";
  ASSERT_TRUE(merge_timelines(out, parts).ok());
  EXPECT_EQ(json::parse(content_of(out)).size(), 1u + 7 + 6);
}

TEST(TimelineMerge, NamesWhatDoesNotFit) {
  ScratchFolder folder;
  const std::string out = folder.path() / "out";
  const std::string a = write_part(folder, "a", trace_identity(0, 2));
  auto words = [&](const std::vector<std::string>& parts) { return merge_timelines(out, parts).message; };
  EXPECT_THAT(words({a, write_part(folder, "b", trace_identity(1, 2, 78))}), HasSubstr("are not of one job"));
  EXPECT_THAT(words({a, write_part(folder, "c", trace_identity(0, 2))}), HasSubstr("are both of rank 0"));
  EXPECT_THAT(words({a, folder.path() / "missing"}), HasSubstr("missing' is not the timeline of one rank"));
  EXPECT_THAT(words({}), HasSubstr("no file"));
  const char* const bad[] = {
      "",
      "[",
      "[\n",
      "{}",
      "[\n{}\n]\n",
      "[\n[1]\n]\n",
      "[\n{\"name\":\"rueda_timeline\"}\n]\n",
      "[\n{\"name\":\"rueda_timeline\",\"args\":[1]}\n]\n",
      "[\n{\"name\":\"rueda_timeline\",\"args\":{\"start_time_since_epoch_in_micros\":1,\"session\":1}}\n]\n",
      R"([{"name":"rueda_timeline","args":{"start_time_since_epoch_in_micros":1,"session":1,"rank":0}}])",
  };
  for (const char* text : bad) {
    EXPECT_FALSE(read_timeline_header(folder.write("bad", text))) << text;
  }
  EXPECT_THAT(merge_timelines("/no/such/folder/out", std::vector{a}).message, HasSubstr("cannot write"));
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST(TimelineMerge, RankZeroMergesWhenAllHaveStopped) {
  ScratchFolder folder;
  const std::string path = folder.path() / "trace.json";
  Timeline zero, one;
  zero.set_identity(trace_identity(0, 2));
  one.set_identity(trace_identity(1, 2));
  ASSERT_TRUE(zero.start(path, false).ok() && one.start(path, false).ok());
  one.push(event_of(Kind::submitted, 5000, 1, 0, "late"));
  std::thread other([&] { EXPECT_TRUE(one.stop().ok()); });
  EXPECT_TRUE(zero.stop().ok());
  other.join();
  EXPECT_THAT(content_of(path), HasSubstr("allreduce.late"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "trace.rank1.json"));
}

TEST(TimelineMerge, WithoutTheFileOfARankEachKeepsItsOwn) {
  ScratchFolder folder;
  const std::string path = folder.path() / "trace.json";
  write_part(folder, "trace.rank1.json", trace_identity(1, 2, 78));  // of an earlier job
  Timeline zero;
  zero.set_identity(trace_identity(0, 2));
  ASSERT_TRUE(zero.start(path, false).ok());
  EXPECT_TRUE(zero.stop().ok());
  EXPECT_TRUE(timeline_ended(path));
  EXPECT_TRUE(timeline_ended(folder.path() / "trace.rank1.json"));
  EXPECT_EQ(read_timeline_header(path)->epoch_us, 77);
}

}  // namespace
}  // namespace rueda
