// SPDX-License-Identifier: Apache-2.0
// How long to poll for something before sleeping until it comes.
#pragma once

#include <chrono>

namespace rueda {

// Purpose: polls as long as polling helps. If cores are short, a thread that polls keeps the awaited thread
// from running. After two waits in a row with polling in vain, the next ones sleep at once. Only one in 16
// tries again. Belongs to the thread that waits.
class AdaptiveSpin {
 public:
  using Duration = std::chrono::steady_clock::duration;

  explicit AdaptiveSpin(Duration longest) : longest_(longest) {}

  // For the wait that begins.
  Duration next() { return in_vain_ < kEnough || ++waits_ % kTryEvery == 0 ? longest_ : Duration::zero(); }
  // How the polling ended; not told where there was none.
  void ended(bool helped) { in_vain_ = helped ? 0 : in_vain_ + (in_vain_ < kEnough ? 1 : 0); }

 private:
  static constexpr int kEnough = 2;
  static constexpr unsigned kTryEvery = 16;

  Duration longest_;
  int in_vain_ = 0;
  unsigned waits_ = 0;
};

}  // namespace rueda
