// SPDX-License-Identifier: Apache-2.0
#include "ops/bootstrap/address/program_store.h"

#include <fmt/format.h>

#include <chrono>
#include <exception>

#include "core/base/log.h"
#include "ops/bootstrap/address/start_error.h"

namespace rueda {
namespace {

// A store answers within a fraction of a second; one that hangs must not keep init() for ever.
constexpr std::chrono::seconds kLongestCall{5};
// No endpoint. A deleted key would do as well, but not every store can delete one, and a rank that has just
// seen the key may wait in get() until it is there again.
constexpr const char* kNothing = "-";
constexpr std::size_t kLongestProgramValue = 64 << 10;

}  // namespace

void ProgramStore::ask(std::string_view what, const std::function<void(Store&)>& question) {
  std::shared_ptr<Store> store;
  {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return !busy_; });
    if (!store_) return;
    busy_ = true;
    store = store_;
  }
  std::string failure;
  try {
    question(*store);
  } catch (const std::exception& error) {
    failure = error.what();
    if (failure.empty()) failure = "an exception without words";
  } catch (...) {
    failure = "an exception without words";
  }
  store.reset();
  {
    const std::lock_guard lock(mutex_);
    busy_ = false;
    idle_.notify_all();
  }
  if (!failure.empty())
    cannot_start(fmt::format("rank {} of {}: {} of {} has failed: {}", rank_, size_, what, words_, failure));
}

void ProgramStore::set(const std::string& key, const std::string& value) {
  ask(fmt::format("set(\"{}\")", key), [&](Store& store) { store.set(key, value); });
}

std::optional<std::string> ProgramStore::get(const std::string& key) {
  std::optional<std::string> value;
  ask(fmt::format("get(\"{}\")", key), [&](Store& store) { value = store.get(key); });
  if (value && value->size() > kLongestProgramValue) return std::nullopt;
  return value;
}

void ProgramStore::retire(const std::string& key, const std::string& value) {
  const std::lock_guard lock(mutex_);
  retired_.emplace(key, value);
}

void ProgramStore::close() {
  std::unique_lock lock(mutex_);
  const std::shared_ptr<Store> store = std::exchange(store_, nullptr);
  if (!idle_.wait_for(lock, kLongestCall, [&] { return !busy_; })) {
    log(LogLevel::warning, "{} does not answer; a thread of init() still waits for it", words_);
    return;
  }
  const std::optional<std::pair<std::string, std::string>> retired = retired_;
  lock.unlock();
  if (retired) overwrite(*store, retired->first, retired->second);
}

// The job has started, and goes on whatever happens to a value that is needed no more.
void ProgramStore::overwrite(Store& store, const std::string& key, const std::string& value) {
  try {
    if (store.get(key) == value) store.set(key, kNothing);
  } catch (const std::exception& error) {
    log(LogLevel::info, "the value \"{}\" of a start that is over stays: {}", key, error.what());
  } catch (...) {
    log(LogLevel::info, "the value \"{}\" of a start that is over stays", key);
  }
}

}  // namespace rueda
