// SPDX-License-Identifier: Apache-2.0
// The sum of several ranks' float32 of which each sends only its largest elements, and keeps the rest back.
//
// Each adds what it has kept back to what it has; sends the share of largest magnitude of every run of
// kLongestRun elements, as pairs of index and value; and keeps the others for the next time. The pairs of all
// go round a ring; every rank adds them up in the order of the group, so all have the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "core/base/host_buffer.h"
#include "ops/algorithms/passes/algorithm.h"
#include "ops/compression/topk_select.h"
#include "ops/kernels/kernels.h"

namespace rueda {

// Purpose: one rank's part of it, one run a step. Part of a Work. Cost: of k elements that travel each of n
// ranks sends and receives 8 k (n-1) bytes, and needs 8 k n of memory.
class SparseSum final : public Algorithm {
 public:
  // Pointers may be null where `route.channel` has been abandoned. `input` and `output` may be the same.
  struct Job {
    Route route;
    std::string_view tensor;  // its name, for errors
    double share = 1.0;
    std::int64_t elements = 0;
    const float* input = nullptr;
    float* output = nullptr;
    const float* before = nullptr;  // what was kept back; null: nothing
    float* after = nullptr;         // what is, when this is done
    kernels::Scale prescale;
    kernels::Scale postscale;
  };

  explicit SparseSum(Job job);
  static PlanRoute route() { return {.between = "ring", .sent_as = Compression::topk}; }
  Step step() override;
  std::string_view phase() const override;

 private:
  bool abandoned() const { return job_.route.channel->abandoned(); }
  std::int64_t elements_of(std::int64_t run) const;
  std::span<Picked> picked(std::int64_t host, std::int64_t run) const;
  void pick(std::int64_t run);
  void gather();
  void add_up(std::int64_t run);

  Job job_;
  const kernels::Kernels& kernels_;
  const std::int64_t runs_;
  const std::int64_t picked_of_run_;   // of each but the last
  const std::int64_t picked_of_host_;  // of all
  HostBuffer picked_;                  // of all hosts, from the first step on
  std::int64_t chosen_ = 0;            // runs
  std::int64_t added_ = 0;
  std::unique_ptr<Algorithm> gathering_;
  bool gathered_ = false;
};

}  // namespace rueda
