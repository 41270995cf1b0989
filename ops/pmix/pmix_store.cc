// SPDX-License-Identifier: Apache-2.0
#include "ops/pmix/pmix_store.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>

namespace rueda {
namespace {

// Ranks keep what they have heard of a key, so each job of the process has keys of its own.
int next_job() {
  static std::atomic<int> jobs{0};
  return jobs++;
}

}  // namespace

PmixStore::PmixStore(const PmixLibrary& library) : client_(library), job_(next_job()) {}

std::string PmixStore::of_this_job(const std::string& key) const { return fmt::format("{}-{}", key, job_); }

void PmixStore::set(const std::string& key, const std::string& value) {
  client_.publish(of_this_job(key), value);
}

std::optional<std::string> PmixStore::get(const std::string& key) {
  if (value_) return value_;
  if (!answer_.valid()) answer_ = client_.ask(0, of_this_job(key));
  if (answer_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) value_ = answer_.get();
  return value_;
}

Launch numbered_by_pmix(Launch launch) {
  const auto store = std::make_shared<PmixStore>(pmix_library());
  launch.rank = store->client().rank();
  launch.size = store->client().size();
  launch.one_host = store->client().one_host();
  launch.given_store = store;
  return launch;
}

}  // namespace rueda
