// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/store_policy.h"

#include <algorithm>
#include <chrono>

namespace rueda {
namespace {

constexpr double kFast = 0.05;  // ns a byte, 3 a line: no memory takes them faster
constexpr double kBetter = 0.9;
constexpr double kSlower = 1.25;  // from one operation to the next; a single one may have lost its core
constexpr double kMoved = 2;      // several in a row were slower: it may be on another core
constexpr int kLeastSpan = 4;
constexpr int kMostSpan = 1024;   // each rank tries by itself, and all wait for the slowest
constexpr int kTrialOfCache = 4;  // the first ones find what was streamed in memory

}  // namespace

void StorePolicy::took(bool streamed, std::size_t bytes, Duration time) {
  if (bytes == 0) return;
  const double each = std::chrono::duration<double, std::nano>(time).count() / static_cast<double>(bytes);
  if (streamed == streams_) {
    kept_ = std::min(each, kept_ * kSlower);
    if (kept_ > kMoved * judged_) {
      span_ = kLeastSpan;
      judged_ = kept_;
    }
    if (trial_ == 0 && ++since_trial_ >= span_ && (streams_ || kept_ > kFast))
      trial_ = streams_ ? kTrialOfCache : 1;
    return;
  }
  if (trial_ == 0 || --trial_ > 0) return;  // begun before the trial ended; not the one that counts
  since_trial_ = 0;
  if (each < kBetter * kept_) {
    streams_ = streamed;
    kept_ = each;
    span_ = kLeastSpan;
  } else {
    span_ = std::min(2 * span_, kMostSpan);
  }
  judged_ = kept_;
}

}  // namespace rueda
