// SPDX-License-Identifier: Apache-2.0
// The store that a program has given to init().
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ops/bootstrap/address/key_value_store.h"
#include "rueda/store.h"
#include "rueda/types.h"

namespace rueda {

// Purpose: lets a start use the program's store until init() returns, and not longer: a thread that still
// looks for rank 0 then gets nothing. Any thread may call it; calls of the program's store never overlap.
class ProgramStore final : public KeyValueStore {
 public:
  ProgramStore(std::shared_ptr<Store> store, Rank rank, Rank size)
      : store_(std::move(store)), rank_(rank), size_(size), words_(store_->in_words()) {}

  void set(const std::string& key, const std::string& value) override;
  // Nothing also once the start is over.
  std::optional<std::string> get(const std::string& key) override;
  // The background thread says so, and must not wait for a program: close() does it.
  void retire(const std::string& key, const std::string& value) override;
  std::string in_words() const override { return words_; }

  // By the thread that has called init(). Waits for a call of another thread, for some seconds at most.
  void close();

 private:
  void ask(std::string_view what, const std::function<void(Store&)>& question);
  static void overwrite(Store& store, const std::string& key, const std::string& value);

  std::mutex mutex_;
  std::condition_variable idle_;
  std::shared_ptr<Store> store_;  // null once it is closed
  bool busy_ = false;             // some thread is in the program's store
  std::optional<std::pair<std::string, std::string>> retired_;
  const Rank rank_;
  const Rank size_;
  const std::string words_;
};

}  // namespace rueda
