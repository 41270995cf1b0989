// SPDX-License-Identifier: Apache-2.0
#include "core/engine/submissions/pending_table.h"
#include "core/engine/submissions/submission.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace rueda {
namespace {

Request request_in_set(std::string name, ProcessSetId set = kWorld) {
  Request request;
  request.name = std::move(name);
  request.process_set = set;
  return request;
}

std::shared_ptr<HandleState> state_of(Request request) {
  Submission submission;
  submission.request = std::move(request);
  return std::make_shared<HandleState>(nullptr, std::move(submission));
}

void add(PendingTable& table, Entry entry) {
  ASSERT_EQ(table.problem_in(entry, true), "");
  table.add(std::move(entry));
}

void add(PendingTable& table, Request request) { add(table, Entry(state_of(std::move(request)))); }

std::vector<std::string> names_of_entries(const std::vector<Entry>& entries) {
  std::vector<std::string> names;
  for (const Entry& entry : entries) names.push_back(entry.request().name);
  return names;
}

TEST(PendingTable, KeepsANameFromSubmissionToCompletion) {
  PendingTable table;
  for (int step = 0; step < 3; ++step) {
    add(table, request_in_set("x"));
    EXPECT_FALSE(table.empty());
    Entry of_another_set(state_of(request_in_set("x", 1)));
    EXPECT_EQ(table.problem_in(of_another_set, true), "");
    std::vector<Entry> started;
    EXPECT_FALSE(table.start(request_in_set("y"), started));
    EXPECT_TRUE(table.start(request_in_set("x"), started));
    EXPECT_FALSE(table.start(request_in_set("x"), started));  // once
    EXPECT_TRUE(table.contains(KeyView{kWorld, "x"}));
    table.finish(started.front());
    EXPECT_FALSE(table.contains(KeyView{kWorld, "x"}));
    EXPECT_TRUE(table.empty());
  }
}

TEST(PendingTable, OutlivesManyNamesThatComeOnce) {
  PendingTable table;
  add(table, request_in_set("stays"));
  std::vector<Entry> flying;
  for (int i = 0; i < 20'000; ++i) {
    const Request request = request_in_set("once." + std::to_string(i));
    table.forget_unused();
    add(table, request);
    ASSERT_TRUE(table.start(request, flying));
    if (i % 7 != 0) table.finish(flying.back());
  }
  for (Entry& entry : flying) {
    if (entry.pending_name == nullptr) continue;
    EXPECT_TRUE(table.contains(key_view_of(entry.request())));
    table.finish(entry);
  }
  EXPECT_THAT(names_of_entries(table.take_all()), testing::ElementsAre("stays"));
}

TEST(PendingTable, TakesWhatWaitsOfOneSet) {
  PendingTable table;
  for (const char* name : {"a", "b", "c"}) add(table, request_in_set(name, name[0] == 'b' ? 1 : 2));
  std::vector<Entry> taken;
  ASSERT_TRUE(table.start(request_in_set("c", 2), taken));
  EXPECT_THAT(names_of_entries(table.take_all(2)), testing::ElementsAre("a"));
  EXPECT_THAT(names_of_entries(table.take_all()), testing::ElementsAre("b"));
  EXPECT_TRUE(table.take_all().empty());
}

TEST(PendingTable, StartsAGroupByItsFirst) {
  PendingTable table;
  std::vector<std::shared_ptr<HandleState>> states;
  for (const char* name : {"g.10", "g.9", "g.2"}) states.push_back(state_of(request_in_set(name)));
  std::vector<Entry> entries = entries_of_group(states);
  EXPECT_THAT(names_of_entries(entries), testing::ElementsAre("g.2", "g.9", "g.10"));
  EXPECT_EQ(of_one_group(entries), 3u);
  EXPECT_EQ(entries[1].handle, states[1]);  // each with its own Handle
  const Request first = entries[0].request(), second = entries[1].request();
  for (Entry& entry : entries) add(table, std::move(entry));
  EXPECT_EQ(table.first_of_group(KeyView{kWorld, "g.2"}), "");
  EXPECT_EQ(table.first_of_group(KeyView{kWorld, "g.9"}), "g.2");
  std::vector<Entry> started;
  // What others submit alone, or in another group, under the name of one that follows is something else.
  EXPECT_FALSE(table.start(request_in_set("g.9"), started));
  Request of_another = second;
  of_another.follows = "f";
  EXPECT_FALSE(table.start(of_another, started));
  EXPECT_TRUE(table.start(second, started));
  table.start_group(first, started);
  EXPECT_THAT(names_of_entries(started), testing::ElementsAre("g.9", "g.2", "g.10"));
  EXPECT_EQ(table.first_of_group(KeyView{kWorld, "g.9"}), "g.2");  // until it is complete
  for (Entry& entry : started) table.finish(entry);
  EXPECT_EQ(table.first_of_group(KeyView{kWorld, "g.9"}), "");
}

}  // namespace
}  // namespace rueda
