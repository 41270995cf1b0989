// SPDX-License-Identifier: Apache-2.0
// A gradient that travels as two thin matrices (PowerSGD: Vogels, Karimireddy, Jaggi 2019).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "rueda/rueda.h"
#include "rueda/torch/collectives/operations.h"
#include "rueda/torch/collectives/scope_reference.h"
#include "rueda/torch/compression/communication_hook.h"

namespace rueda {

// Whether the gradient of a parameter is at most half the bytes as factors of that rank, and of a type that
// can be.
bool pays_at_rank(const at::Tensor& parameter, std::int64_t rank);
// Makes PowerSgdReductions of that rank.
MakeHook powersgd_hook(std::int64_t rank);

// Purpose: reduces the gradient of one parameter, step by step, as a matrix M of rank r: one step of a power
// iteration for the sum of all ranks' M.
//   M = gradient + the rest that earlier steps have left here, as matrix m x c: first dimension, all others
//   P = M Q          reduced, then made orthonormal; m x r. Q: of the step before. On a device by one rank,
//                    which sends it
//   Q = M^T P        reduced; c x r
//   gradient = P Q^T; left out here: M - P (M^T P)^T, of this rank's M
// Both products are linear in M, so that reduced factors are those of the reduced M: r (m + c) values travel
// by ordinary allreduces. Every rank keeps the part of its own M that P does not reach. The sum of these
// parts is the error of the result, for any factor of the reduction. P and Q are bits that all have alike,
// and so is the result; if ranks begin with different Q, the result is a worse one, no other. Keeps a second
// gradient's memory. On a device nothing makes the host wait for it.
class PowerSgdReduction final : public CommunicationHook {
 public:
  // The first factor has the operation's name, under which a rank that does not compress reduces the whole: a
  // Mismatch.
  PowerSgdReduction(HookedParameter of, std::int64_t rank);

  // Submits the first factor.
  void begin(const at::Tensor& gradient) override;
  int rounds() const override { return 3; }
  void advance(int round) override { round == 2 ? submit_basis() : submit_second(); }
  // After a failure, or if the result is not finite (a mixed-precision scaler's question), the part that was
  // left out before is kept as it was.
  Status finish() override;
  double share_of_square_sum() const override;
  void clear() override;

 private:
  void submit_basis();
  void submit_second();
  void put_result();
  template <class T>
  void put_result_on_host(bool finite);
  bool has_residual() const;

  const HookedParameter of_;
  const std::uint64_t seed_;  // of the first Q, the same on all ranks; and of which rank makes P on a device
  const std::int64_t rank_;
  std::uint64_t steps_ = 0;
  at::Tensor residual_;           // m x c: left out so far; undefined: no step yet
  at::Tensor second_of_all_;      // r x c: Q of the last step, transposed
  at::Tensor gradient_, matrix_;  // of this step; the same memory if the gradient is contiguous
  at::Tensor factor_;             // r x m: P, transposed
  at::Tensor second_of_own_;
  std::optional<TensorHandle> first_;  // on a device, the reduction and then the broadcast
  std::optional<TensorHandle> second_;
  Status failure_;
};

}  // namespace rueda
