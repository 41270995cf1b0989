// SPDX-License-Identifier: Apache-2.0
// The words with which the ranks of a test, which are threads, refuse something.
#pragma once

#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "tests/support/scratch_folder.h"

namespace rueda {

// Purpose: collects what ranks throw, to be compared. Any thread may add.
class RankWords {
 public:
  // Fails the test if `action` throws nothing.
  template <class Action>
  void of(Action&& action) {
    std::string words = error_message(action);
    const std::lock_guard lock(mutex_);
    words_.push_back(std::move(words));
  }
  // The words of `ranks` ranks, which must be the same.
  std::string common(std::size_t ranks) const {
    EXPECT_EQ(words_.size(), ranks);
    for (const std::string& each : words_) EXPECT_EQ(each, words_.front());
    return words_.empty() ? std::string() : words_.front();
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> words_;
};

}  // namespace rueda
