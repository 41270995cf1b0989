// SPDX-License-Identifier: Apache-2.0
#include "core/engine/submissions/names_in_flight.h"
#include "core/engine/submissions/submission.h"

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace rueda {
namespace {

using ::testing::HasSubstr;

Entry entry_of(std::string name, ProcessSetId set = kWorld) {
  Submission submission;
  submission.request.name = std::move(name);
  submission.request.process_set = set;
  return Entry(std::make_shared<HandleState>(nullptr, std::move(submission)));
}

TEST(NamesInFlight, RefusesANameUntilItIsFreed) {
  NamesInFlight names;
  for (int step = 0; step < 3; ++step) {
    Entry first = entry_of("x"), second = entry_of("x"), of_another_set = entry_of("x", 1);
    ASSERT_TRUE(names.take({&first, 1}).ok());
    const Status refused = names.take({&second, 1});
    EXPECT_EQ(refused.code, StatusCode::invalid_argument);
    EXPECT_THAT(refused.message, HasSubstr("'x': an operation of that name is in flight"));
    EXPECT_TRUE(names.take({&of_another_set, 1}).ok());
    NamesInFlight::free(second);  // has taken nothing
    EXPECT_FALSE(names.take({&second, 1}).ok());
    NamesInFlight::free(first);
    NamesInFlight::free(of_another_set);
  }
}

TEST(NamesInFlight, TakesNoneOfAGroupOfWhichOneIsInFlight) {
  NamesInFlight names;
  Entry flying = entry_of("b");
  ASSERT_TRUE(names.take({&flying, 1}).ok());
  std::vector<Entry> group;
  for (const char* name : {"a", "b", "c"}) group.push_back(entry_of(name));
  EXPECT_THAT(names.take(group).message, HasSubstr("'b'"));
  NamesInFlight::free(flying);
  EXPECT_TRUE(names.take(group).ok());
}

TEST(NamesInFlight, KeepsWhatIsTakenBesideManyNamesThatComeOnce) {
  NamesInFlight names;
  Entry stays = entry_of("stays");
  ASSERT_TRUE(names.take({&stays, 1}).ok());
  for (int i = 0; i < 20'000; ++i) {
    Entry once = entry_of("once." + std::to_string(i));
    ASSERT_TRUE(names.take({&once, 1}).ok());
    NamesInFlight::free(once);
  }
  Entry again = entry_of("stays");
  EXPECT_FALSE(names.take({&again, 1}).ok());
}

}  // namespace
}  // namespace rueda
