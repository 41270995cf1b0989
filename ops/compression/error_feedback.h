// SPDX-License-Identifier: Apache-2.0
// The residuals that a rank keeps of tensors of which only a share travels, until they are reduced again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <unordered_map>
#include <utility>

#include "core/base/host_buffer.h"
#include "core/control/messages/request.h"
#include "ops/buffers/work_memory.h"

namespace rueda {

// Purpose: the residuals of a job, float32, one for each name and process set. Owned by a backend, used by
// the background thread; outlives all Leases. At most kMost are kept, the last used ones: what is forgotten
// is lost, no more. Cost: 8 bytes for each element that a rank sums up for its host.
class ErrorFeedback {
 public:
  static constexpr std::size_t kMost = 4096;

  // Which elements of a tensor this rank keeps back: a tensor that is cut in another way begins anew.
  struct Cut {
    std::int64_t elements = 0;  // of the tensor
    std::int64_t own = 0;       // of them, this rank's
    std::int64_t chunk = 0;     // bytes by which it is cut; 0: not
    friend bool operator==(const Cut&, const Cut&) = default;
  };

 private:
  struct Residual {
    explicit Residual(Key which) : key(std::move(which)) {}
    Key key;
    Cut cut;
    HostBuffer kept;  // null: nothing yet
    HostBuffer next;
    bool begun = false;               // `kept` is a residual
    std::deque<std::uint64_t> turns;  // of Leases, in their order
  };

 public:
  // Purpose: a Work's turn with the residual of its tensor, which comes when the Works that began before it
  // are over: a name may come again while its last Work still runs out here. Without commit() the residual
  // stays as it was. Move-only; lives as long as the Work.
  class Lease {
   public:
    Lease(Lease&& other) noexcept : residual_(std::exchange(other.residual_, nullptr)), turn_(other.turn_) {}
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (residual_ != nullptr) std::erase(residual_->turns, turn_);
    }

    // False while it is the turn of another; call it again. May throw WorkFailure, after which the residual
    // is as it was.
    bool begin(const Cut& cut, const Memory& memory);
    // Then: what was kept back; null: nothing.
    const float* before() const {
      return residual_->begun ? reinterpret_cast<const float*>(residual_->kept.data()) : nullptr;
    }
    // Room for what is from now on.
    float* after() const { return reinterpret_cast<float*>(residual_->next.data()); }
    // All ranks have what this one has sent, and `after` is filled.
    void commit() {
      std::swap(residual_->kept, residual_->next);
      residual_->begun = true;
    }

   private:
    friend class ErrorFeedback;
    Lease(Residual& residual, std::uint64_t turn) : residual_(&residual), turn_(turn) {
      residual.turns.push_back(turn);
    }
    Residual* residual_;
    std::uint64_t turn_;
  };

  // For each Work when it starts, in the order of Plans: so ranks that wait for turns do not wait for one
  // another.
  Lease lease(const Key& key) { return {find(key), ++turns_}; }
  std::size_t size() const { return residuals_.size(); }

 private:
  Residual& find(const Key& key);

  std::list<Residual> residuals_;  // the last used first
  std::unordered_map<Key, std::list<Residual>::iterator, KeyHash, KeyEqual> by_key_;
  std::uint64_t turns_ = 0;
};

}  // namespace rueda
