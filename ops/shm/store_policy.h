// SPDX-License-Identifier: Apache-2.0
// How what is meant for other ranks gets out of this rank's cache.
#pragma once

#include <cstddef>
#include <limits>

#include "core/base/time.h"
#include "ops/kernels/line.h"
#include "ops/kernels/pack.h"

namespace rueda {

// Purpose: decides if operations of about one size store results through this core's cache, or stream them
// past it. A normal store first fetches the line. Between near cores this is several times as fast as a store
// to memory. Between cores without a common cache it is several times as slow, if the line's owner got it
// from memory; a line that goes to and fro still comes fast. No table of the machine tells which: the
// tensor's past counts, and virtual cores move. So operations are timed. If they are slow, sometimes one
// tries the other way, and the faster way wins. Useless trials become rarer until the time gets much worse.
// Owned by the ShmBackend.
class StorePolicy {
 public:
  // The way of the next operation.
  bool streams() const { return streams_ != (trial_ > 0); }
  // One of so many bytes went that way, and its loops took so long.
  void took(bool streamed, std::size_t bytes, Duration time);

 private:
  bool streams_ = false;                                   // the way kept
  double kept_ = std::numeric_limits<double>::infinity();  // ns a byte, of the best lately
  double judged_ = kept_;                                  // when last compared
  int since_trial_ = 0;                                    // operations
  int span_ = 4;
  int trial_ = 0;  // operations that go the other way now
};

// Purpose: one Work's use of a StorePolicy: which way it goes, and how long its loops over memory take. Part
// of the Work.
class TimedStores {
 public:
  TimedStores() = default;  // through the cache; nothing is timed
  explicit TimedStores(StorePolicy& choice) : choice_(&choice), streams_(choice.streams()) {}

  // Whether what is meant for others is streamed past this core's cache.
  bool streamed() const { return streams_; }
  void store_through_cache() { streams_ = false; }  // where lines cannot be streamed
  void copy(void* to, const void* from, std::size_t bytes) const {
    streams_ ? kernels::copy_streamed(to, from, bytes) : kernels::copy_bytes(to, from, bytes);
  }
  // Purpose: times loops over memory, from its construction to its end. Other ranks see all stores of these
  // loops, if they are told of them after that.
  class Timing {
   public:
    // `timed`: the loops do nothing but move bytes.
    explicit Timing(TimedStores& stores, bool timed = true)
        : stores_(timed && stores.choice_ != nullptr ? &stores : nullptr) {
      if (stores_ != nullptr) begun_ = clock_now();
    }
    ~Timing() {
      if (stores_ == nullptr) return;
      if (stores_->streams_) kernels::end_of_stream();
      stores_->spent_ += clock_now() - begun_;
    }
    Timing(const Timing&) = delete;
    Timing& operator=(const Timing&) = delete;

   private:
    TimedStores* const stores_;
    Time begun_;
  };
  // At the end, when it has moved so many bytes.
  void tell(std::size_t bytes) const {
    if (choice_ != nullptr) choice_->took(streams_, bytes, spent_);
  }

 private:
  StorePolicy* choice_ = nullptr;
  bool streams_ = false;
  Duration spent_{};
};

// Purpose: those of one operation and about one size. Owned by the ShmBackend.
struct StorePolicies {
  StorePolicy one_shot;
  StorePolicy in_place;  // what goes into the tensors of others
  StorePolicy staged;    // what goes into shared buffers
};

}  // namespace rueda
