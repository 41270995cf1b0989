// SPDX-License-Identifier: Apache-2.0
#include "ops/pmix/pmix_client.h"

#include <fmt/format.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "core/base/log.h"
#include "ops/bootstrap/address/start_error.h"

namespace rueda {
namespace {

using Text = std::optional<std::string>;

// Slurm takes values within a millisecond. After the loss of a host it can be busy for half a minute.
constexpr std::chrono::seconds kTimeout{1};

[[noreturn]] void blame_launcher(const std::string& why) {
  cannot_start(
      fmt::format("the launcher of this process, by PMIx, {}. Start the job by ruedarun, or set "
                  "RUEDA_STORE=HOST:PORT.",
                  why));
}

// Calls libpmix on a thread of its own, which stays behind where the launcher never answers.
std::future<PmixStatus> begin(std::function<PmixStatus()> call) {
  std::packaged_task<PmixStatus()> task(std::move(call));
  std::future<PmixStatus> done = task.get_future();
  std::thread(std::move(task)).detach();
  return done;
}

// Zero where the launcher does not know it.
std::uint32_t number_of_job(const PmixLibrary& library, PmixProcess job, const char* key) {
  PmixValue* value = nullptr;
  job.rank = PmixProcess::kAll;
  if (library.get(&job, key, nullptr, 0, &value) != kPmixSuccess || value == nullptr) return 0;
  const std::unique_ptr<PmixValue, void (*)(void*)> owner(value, std::free);
  return value->type == PmixValue::kUint32 ? value->number : 0;
}

// Purpose: a question to libpmix, which reads key and process until it has answered.
struct Question {
  PmixProcess whom;
  std::string key;
  std::promise<Text> answer;
};

void take_answer(PmixStatus status, PmixValue* value, void* context) {
  const std::unique_ptr<Question> question(static_cast<Question*>(context));
  const bool good = status == kPmixSuccess && value != nullptr && value->type == PmixValue::kString &&
                    value->string != nullptr;
  question->answer.set_value(good ? Text(value->string) : Text());
}

}  // namespace

PmixClient::PmixClient(const PmixLibrary& library, std::chrono::milliseconds longest_call)
    : library_(library) {
  struct Introduction {
    PmixProcess self;
    std::uint32_t size = 0, here = 0;
  };
  const auto told = std::make_shared<Introduction>();
  std::future<PmixStatus> done = begin([&library, told] {
    const PmixStatus status = library.init(&told->self, nullptr, 0);
    if (status != kPmixSuccess) return status;
    told->size = number_of_job(library, told->self, kPmixJobSize);
    told->here = number_of_job(library, told->self, kPmixLocalSize);
    return status;
  });
  if (done.wait_for(longest_call) != std::future_status::ready)
    blame_launcher(fmt::format("does not answer PMIx_Init within {} ms", longest_call.count()));
  if (const PmixStatus status = done.get(); status != kPmixSuccess)
    blame_launcher(fmt::format("answers PMIx_Init by '{}'", library.words(status)));
  self_ = told->self;
  size_ = static_cast<Rank>(told->size);
  one_host_ = told->size == told->here;
  if (size_ > 0 && self_.rank < told->size) return;
  library_.finalize(nullptr, 0);
  blame_launcher(fmt::format("says that this is rank {} of {}", self_.rank, told->size));
}

// A launcher that is still busy with a value is not told: it sees the process end.
PmixClient::~PmixClient() {
  const bool busy = taken_.valid() && taken_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
  if (!busy) library_.finalize(nullptr, 0);
}

void PmixClient::publish(const std::string& key, const std::string& value) {
  taken_ = begin([&library = library_, key, text = value]() mutable {
    PmixValue given;
    given.type = PmixValue::kString;
    given.string = text.data();
    const PmixStatus status = library.put(kPmixGlobal, key.c_str(), &given);
    return status == kPmixSuccess ? library.commit() : status;
  });
  if (taken_.wait_for(kTimeout) != std::future_status::ready) {
    log(LogLevel::warning,
        "rank {}: the launcher has not taken the address of this rank, by PMIx, within {} s. It may be busy "
        "with a host that has failed. The job starts once the launcher has it.",
        rank(), kTimeout.count());
  } else if (const PmixStatus status = taken_.get(); status != kPmixSuccess) {
    blame_launcher(fmt::format("answers PMIx_Commit by '{}'", library_.words(status)));
  }
}

std::future<Text> PmixClient::ask(Rank rank, const std::string& key) const {
  auto question = std::make_unique<Question>();
  question->whom = self_;
  question->whom.rank = static_cast<std::uint32_t>(rank);
  question->key = key;
  std::future<Text> answer = question->answer.get_future();
  const PmixStatus status =
      library_.get_later(&question->whom, question->key.c_str(), nullptr, 0, &take_answer, question.get());
  if (status == kPmixSuccess) {
    static_cast<void>(question.release());  // take_answer() has it
  } else {
    question->answer.set_value(Text());
  }
  return answer;
}

}  // namespace rueda
