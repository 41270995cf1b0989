// SPDX-License-Identifier: Apache-2.0
// A store of c10d's, for the start of a group.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "rueda/store.h"

namespace rueda {

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

}  // namespace rueda
