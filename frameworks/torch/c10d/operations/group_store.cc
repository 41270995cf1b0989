// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/operations/group_store.h"

#include <fmt/format.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

namespace rueda {

void GroupStore::set(const std::string& key, const std::string& value) { store_->set(key, value); }

std::optional<std::string> GroupStore::get(const std::string& key) {
  if (!store_->check({key})) return std::nullopt;
  return store_->get_to_str(key);
}

std::string GroupStore::in_words() const { return fmt::format("the store of the group '{}'", group_); }

c10::intrusive_ptr<c10d::Store> store_of_job(c10::intrusive_ptr<c10d::Store> store, const Runtime& job) {
  return c10::make_intrusive<c10d::PrefixStore>(fmt::format("job-{}", job.job()), std::move(store));
}

}  // namespace rueda
