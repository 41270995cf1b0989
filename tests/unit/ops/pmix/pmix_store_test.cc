// SPDX-License-Identifier: Apache-2.0
// Values by PMIx, with functions in place of libpmix: answers that are late, missing or bad.
#include "ops/pmix/pmix_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace rueda {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

// Purpose: a launcher behind the functions of libpmix, which know one of them only.
struct Launcher {
  struct Question {
    std::string key;
    PmixTold told;
    void* context;
  };

  std::uint32_t rank = 1, size = 3, here = 3;
  std::function<PmixStatus()> init = [] { return kPmixSuccess; };
  std::function<PmixStatus()> commit = [] { return kPmixSuccess; };
  std::atomic<int> clients{0};
  std::mutex mutex;
  std::map<std::string, std::string> values;
  std::vector<Question> questions;

  std::size_t published() {
    std::lock_guard lock(mutex);
    return values.size();
  }
  // As libpmix does; none: it cannot wait any longer.
  void answer(const char* text) {
    const Question question = questions.back();
    PmixValue value;
    std::string copy = text == nullptr ? "" : text;
    value.type = PmixValue::kString;
    value.string = copy.data();
    question.told(text == nullptr ? -24 : kPmixSuccess, text == nullptr ? nullptr : &value, question.context);
  }
};

std::shared_ptr<Launcher> launcher;

PmixStatus init(PmixProcess* self, PmixOption*, std::size_t) {
  const std::shared_ptr<Launcher> mine = launcher;  // a late call outlives its test
  self->rank = mine->rank;
  const PmixStatus status = mine->init();
  if (status == kPmixSuccess) ++mine->clients;
  return status;
}

PmixStatus finalize(const PmixOption*, std::size_t) {
  --launcher->clients;
  return kPmixSuccess;
}

PmixStatus put(std::uint8_t scope, const char* key, PmixValue* value) {
  EXPECT_EQ(scope, kPmixGlobal);
  std::lock_guard lock(launcher->mutex);
  launcher->values[key] = value->string;
  return kPmixSuccess;
}

PmixStatus commit() {
  const std::shared_ptr<Launcher> mine = launcher;
  return mine->commit();
}

PmixStatus get(const PmixProcess* whom, const char* key, const PmixOption*, std::size_t, PmixValue** value) {
  EXPECT_EQ(whom->rank, PmixProcess::kAll);
  *value = static_cast<PmixValue*>(std::malloc(sizeof(PmixValue)));
  (*value)->type = PmixValue::kUint32;
  (*value)->number = std::string_view(key) == kPmixJobSize ? launcher->size : launcher->here;
  return kPmixSuccess;
}

PmixStatus get_later(const PmixProcess* whom, const char* key, const PmixOption*, std::size_t, PmixTold told,
                     void* context) {
  EXPECT_EQ(whom->rank, 0U);
  launcher->questions.push_back({key, told, context});
  return kPmixSuccess;
}

const char* words(PmixStatus) { return "NO-SERVER"; }

constexpr PmixLibrary kLibrary{&init, &finalize, &put, &commit, &get, &get_later, &words};

class Pmix : public testing::Test {
 protected:
  void SetUp() override { launcher = std::make_shared<Launcher>(); }
};

// Purpose: a call that does not return before this object ends.
class LongCall {
 public:
  ~LongCall() {
    end_.set_value();
    over_->get_future().wait();
  }
  std::function<PmixStatus()> that_returns(PmixStatus status) {
    return [end = end_.get_future().share(), over = over_, status] {
      end.wait();
      over->set_value();
      return status;
    };
  }

 private:
  std::promise<void> end_;
  std::shared_ptr<std::promise<void>> over_ = std::make_shared<std::promise<void>>();
};

std::string error_of(const std::function<void()>& start) {
  try {
    start();
  } catch (const BackendError& error) {
    return error.what();
  }
  return "";
}

TEST_F(Pmix, TheLauncherNumbersTheRanks) {
  {
    const PmixClient client(kLibrary);
    EXPECT_EQ(client.rank(), 1);
    EXPECT_EQ(client.size(), 3);
    EXPECT_TRUE(client.one_host());
    EXPECT_EQ(launcher->clients, 1);
  }
  EXPECT_EQ(launcher->clients, 0);
  launcher->here = 2;
  EXPECT_FALSE(PmixClient(kLibrary).one_host());
  launcher->rank = 3;
  EXPECT_THAT(error_of([] { PmixClient client(kLibrary); }), HasSubstr("says that this is rank 3 of 3"));
  EXPECT_EQ(launcher->clients, 0);
}

TEST_F(Pmix, ALauncherThatDoesNotAnswerIsNamed) {
  launcher->init = [] { return -25; };
  EXPECT_THAT(error_of([] { PmixClient client(kLibrary); }), HasSubstr("answers PMIx_Init by 'NO-SERVER'"));
  LongCall call;
  launcher->init = call.that_returns(-25);
  EXPECT_THAT(error_of([] { PmixClient client(kLibrary, 50ms); }), HasSubstr("PMIx_Init within 50 ms"));
}

TEST_F(Pmix, AValueIsAskedForUntilItIsThere) {
  PmixStore store(kLibrary);
  EXPECT_FALSE(store.get("root"));
  EXPECT_FALSE(store.get("root"));
  ASSERT_EQ(launcher->questions.size(), 1U);
  launcher->answer(nullptr);
  EXPECT_FALSE(store.get("root"));
  EXPECT_FALSE(store.get("root"));
  ASSERT_EQ(launcher->questions.size(), 2U);
  launcher->answer("there");
  EXPECT_EQ(store.get("root"), "there");
  EXPECT_EQ(store.get("root"), "there");
  EXPECT_EQ(launcher->questions.size(), 2U);
}

TEST_F(Pmix, AJobSeesNothingOfAnEarlierOne) {
  PmixStore(kLibrary).set("root", "old");
  const std::string old_key = launcher->values.begin()->first;
  PmixStore store(kLibrary);
  EXPECT_FALSE(store.get("root"));
  EXPECT_NE(launcher->questions.back().key, old_key);
  launcher->answer("new");
  EXPECT_EQ(store.get("root"), "new");
}

TEST_F(Pmix, AnAnswerMayComeWhenNobodyWaits) {
  EXPECT_FALSE(PmixStore(kLibrary).get("root"));
  launcher->answer("late");
}

TEST_F(Pmix, AnAddressThatIsRefusedEndsTheStart) {
  PmixStore store(kLibrary);
  launcher->commit = [] { return -25; };
  EXPECT_THAT(error_of([&] { store.set("root", "here"); }), HasSubstr("answers PMIx_Commit by 'NO-SERVER'"));
}

TEST_F(Pmix, ABusyLauncherKeepsNobodyWaiting) {
  LongCall call;
  launcher->commit = call.that_returns(kPmixSuccess);
  {
    PmixStore store(kLibrary);
    EXPECT_EQ(error_of([&] { store.set("root", "here"); }), "");
    EXPECT_EQ(launcher->published(), 1U);
  }
  EXPECT_EQ(launcher->clients, 1) << "libpmix is left alone";
}

}  // namespace
}  // namespace rueda
