// SPDX-License-Identifier: Apache-2.0
// A store of c10d's, for the start of a group.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "core/engine/runtime.h"
#include "ops/setup/group_start.h"
#include "rueda/store.h"

namespace rueda {

// Begins the job of a group, or of two ranks that exchange messages: ops::start_group. Tests have others.
using StartGroup = std::function<std::unique_ptr<Runtime>(const ops::GroupStart&)>;

// Purpose: lets ranks find one another by the store that c10d gives to a group. One thread at a time.
class GroupStore final : public Store {
 public:
  GroupStore(c10::intrusive_ptr<c10d::Store> store, std::string group)
      : store_(std::move(store)), group_(std::move(group)) {}

  void set(const std::string& key, const std::string& value) override;
  // Never waits: a client of a TCPStore that waits keeps other threads from it.
  std::optional<std::string> get(const std::string& key) override;
  std::string in_words() const override;

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  std::string group_;
};

// The part of a group's store for the words of one job. An earlier group of the same ranks may have left
// words in the store, since destroy_process_group() leaves them there.
c10::intrusive_ptr<c10d::Store> store_of_job(c10::intrusive_ptr<c10d::Store> store, const Runtime& job);

}  // namespace rueda
