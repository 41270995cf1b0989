// SPDX-License-Identifier: Apache-2.0
// One collective operation that is measured: its data, and what it has to give.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/rueda_bench/workload/buffer_memory.h"
#include "rueda/tensor_view.h"
#include "rueda/types.h"

namespace rueda::bench {

inline constexpr Rank kRoot = 0;

// `bytes` are those of the tensor that is reduced or broadcast, of what each rank gives to alltoall and
// reducescatter, of what each rank gets from allgather. Of gather and scatter: of what rank 0, the root, gets
// or gives.
struct Collective {
  Operation operation = Operation::allreduce;
  DataType dtype = DataType::float32;
  std::size_t bytes = 0;
  double share = 0.0;  // of elements that travel between hosts, with top-k compression; 0: without

  std::size_t elements() const { return bytes / size_of(dtype); }
  // Bytes that each rank has to send and receive at least, as a multiple of `bytes`: bus bandwidth is that
  // over time.
  double bus_factor(Rank ranks) const;
};

// Throws: this operation is not measured.
[[noreturn]] void no_collective(Operation operation);

// Purpose: the tensors of one rank. Small whole numbers, so that sums are exact in every dtype. Every rank
// writes its input anew before each step: data that did not move between caches would make the numbers lie.
class CollectiveBuffers {
 public:
  CollectiveBuffers(const Collective& what, Rank rank, Rank size, const Allocate& allocate);

  const Collective& what() const { return what_; }
  Rank rank() const { return rank_; }
  Rank size() const { return size_; }
  // In place for allreduce and broadcast.
  TensorView input() { return {input_.get(), what_.dtype, {input_elements()}, {}}; }
  TensorView output() {
    return {in_place() ? input_.get() : output_.get(), what_.dtype, {output_elements()}, {}};
  }

  void fill() { fill(input_.get()); }
  // Another tensor like the input.
  void fill(std::byte* tensor) const;
  // How many elements are not what they must be; of a share nobody knows.
  std::size_t wrong(const void* result) const;

 private:
  bool in_place() const;
  std::int64_t input_elements() const;
  std::int64_t output_elements() const;
  template <class Word, class Number>
  void write(std::byte* to, std::int64_t elements, Number number) const;
  template <class Number>
  void write_numbers(std::byte* to, std::int64_t elements, Number number) const;
  // The expected value of element i of the result.
  int expected(std::size_t i) const;

  Collective what_;
  Rank rank_;
  Rank size_;
  std::vector<std::uint64_t> codes_;  // of the numbers from 0 on, as the dtype stores them
  std::shared_ptr<std::byte> input_;
  std::shared_ptr<std::byte> output_;
  std::vector<std::byte> expected_;  // what the output has to be
};

}  // namespace rueda::bench
