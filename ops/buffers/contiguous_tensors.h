// SPDX-License-Identifier: Apache-2.0
// All tensors of a Plan as contiguous memory.
#pragma once

#include <cstddef>
#include <span>

#include "core/engine/submissions/entry.h"
#include "ops/buffers/contiguous_copy.h"
#include "ops/buffers/inline_vectors.h"

namespace rueda {

// Purpose: the inputs and outputs of a Work that has several. It packs them before the operation, and
// copies results back after it, some at a time. Part of the Work.
class ContiguousTensors {
 public:
  ContiguousTensors(std::span<Entry> entries, const Memory& memory, InlineVectors& lists)
      : tensors_(lists, entries.size()) {
    for (const Entry& entry : entries) tensors_.emplace_back(entry.submission(), memory);
  }

  // Gets memory and packs a piece of an input; false when all is there. May throw WorkFailure. A tensor is
  // through when `more(its number)` says so too, by false.
  template <class More>
  bool prepare(More more) {
    for (; prepared_ < tensors_.size(); ++prepared_) {
      tensors_[prepared_].output.prepare();
      if (tensors_[prepared_].input.advance() || more(prepared_)) return true;
    }
    return false;
  }
  bool prepare() {
    return prepare([](std::size_t) { return false; });
  }
  // Copies a piece of a result into its output; false when all are there.
  bool copy_back() {
    for (; copied_back_ < tensors_.size(); ++copied_back_) {
      if (tensors_[copied_back_].output.advance()) return true;
    }
    return false;
  }
  // Once prepared.
  const std::byte* input(std::size_t tensor) const { return tensors_[tensor].input.data(); }
  std::byte* output(std::size_t tensor) const { return tensors_[tensor].output.data(); }

 private:
  struct Tensor {
    Tensor(const Submission& submission, const Memory& memory)
        : input(submission.input, memory), output(submission.output, memory) {}
    ContiguousInput input;
    ContiguousOutput output;
  };
  InlineVector<Tensor> tensors_;
  std::size_t prepared_ = 0;  // tensors
  std::size_t copied_back_ = 0;
};

}  // namespace rueda
