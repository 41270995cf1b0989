// SPDX-License-Identifier: Apache-2.0
// The store that a program has given to init(): its errors, and its end with the start.
#include "ops/bootstrap/address/program_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "core/base/error.h"

namespace rueda {
namespace {

using testing::HasSubstr;

// Purpose: a program's store that counts what is asked of it.
class MapStore final : public Store {
 public:
  void set(const std::string& key, const std::string& value) override {
    fail_if_asked();
    values[key] = value;
  }
  std::optional<std::string> get(const std::string& key) override {
    ++gets;
    if (during_get) during_get();
    fail_if_asked();
    const auto found = values.find(key);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  }
  std::string in_words() const override { return "a map"; }
  void fail_if_asked() const {
    if (!failure.empty()) throw std::runtime_error(failure);
  }

  std::map<std::string, std::string> values;
  std::string failure;
  std::function<void()> during_get;
  std::atomic<int> gets{0};
};

TEST(ProgramStore, GivesWhatTheProgramHas) {
  const auto map = std::make_shared<MapStore>();
  ProgramStore store(map, 0, 2);
  EXPECT_FALSE(store.get("key"));
  store.set("key", "value");
  EXPECT_EQ(store.get("key"), "value");
  EXPECT_EQ(map->values.at("key"), "value");
  EXPECT_EQ(store.in_words(), "a map");
}

TEST(ProgramStore, AFailureNamesTheRankTheStoreAndTheCause) {
  const auto map = std::make_shared<MapStore>();
  ProgramStore store(map, 3, 8);
  map->failure = "the disk is full";
  for (const bool sets : {true, false}) {
    try {
      if (sets) store.set("key", "value");
      if (!sets) static_cast<void>(store.get("key"));
      ADD_FAILURE();
    } catch (const BackendError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 3 of 8"));
      EXPECT_THAT(error.what(), HasSubstr(R"(et("key") of a map has failed: the disk is full)"));
    }
  }
  map->failure.clear();
  EXPECT_FALSE(store.get("key")) << "a failed call leaves the store busy";
}

TEST(ProgramStore, AValueOfNoReasonableLengthIsNone) {
  const auto map = std::make_shared<MapStore>();
  ProgramStore store(map, 1, 2);
  map->values["key"] = std::string(1 << 20, 'x');
  EXPECT_FALSE(store.get("key"));
}

TEST(ProgramStore, IsNotAskedAfterItsEnd) {
  const auto map = std::make_shared<MapStore>();
  ProgramStore store(map, 1, 2);
  map->values["key"] = "value";
  EXPECT_TRUE(store.get("key"));
  store.close();
  EXPECT_FALSE(store.get("key"));
  EXPECT_EQ(map->gets, 1);
  EXPECT_EQ(map.use_count(), 1) << "the program's store is held after the end";
}

TEST(ProgramStore, AValueThatIsRetiredIsOverwrittenAtTheEndOnly) {
  const auto map = std::make_shared<MapStore>();
  for (const bool newer : {false, true}) {
    ProgramStore store(map, 0, 2);
    store.set("key", "address");
    store.retire("key", "address");
    EXPECT_EQ(map->values.at("key"), "address");
    if (newer) map->values["key"] = "of another job";
    store.close();
    EXPECT_EQ(map->values.at("key"), newer ? "of another job" : "-");
  }
  ProgramStore store(map, 0, 2);
  store.set("key", "address");
  store.retire("key", "address");
  map->failure = "gone";
  store.close();  // the job runs; nobody needs the value
}

TEST(ProgramStore, TheEndWaitsForACallOfAnotherThread) {
  const auto map = std::make_shared<MapStore>();
  ProgramStore store(map, 1, 2);
  std::promise<void> inside;
  std::atomic<bool> left{false};
  map->during_get = [&] {
    inside.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    left = true;
  };
  std::thread finder([&] { static_cast<void>(store.get("key")); });
  inside.get_future().wait();
  store.close();
  EXPECT_TRUE(left);
  finder.join();
}

}  // namespace
}  // namespace rueda
