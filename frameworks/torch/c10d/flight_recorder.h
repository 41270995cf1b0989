// SPDX-License-Identifier: Apache-2.0
// The last operations of this process's groups, for torch's own tools.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "frameworks/torch/c10d/operations/pending_operation.h"

namespace rueda {

// Purpose: an operation that begins, as the recorder notes it. A plain value.
struct RecordedCall {
  c10d::OpType type = c10d::OpType::UNKNOWN;
  std::uint64_t number = 0;  // in its group
  int peer = -1;             // of a message: the other rank of the group, which has two
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> outputs;
  std::chrono::milliseconds timeout{0};
};

// Purpose: a ring of operations with their shapes and their ends, as torch's flight recorder keeps them. Its
// dumps have the format of that (FlightRecorder.hpp), which `torchfrtrace` compares. One for the process; any
// thread. Guarded by the mutex. A thread that holds Python's lock may wait for the mutex. So whoever holds
// the mutex does nothing that may take that lock: it frees no tensor, asks no operation for its status, and
// finds no names of frames.
class FlightRecorder {
 public:
  static FlightRecorder& of_process();
  FlightRecorder();
  ~FlightRecorder();

  bool is_on() const { return most_ > 0; }

  // Returns the number of a group of these ranks of the job, in which this process is rank `own`.
  std::size_t add_group(const std::string& name, std::vector<std::uint64_t> ranks, int own);
  // An operation has begun. Returns its number here. It keeps no tensor.
  std::uint64_t note(std::size_t group, const RecordedCall& call, const PendingOperations& operations);
  // It has ended, well or not: one that has failed does not count as completed.
  void note_end(std::uint64_t number, bool well);

  // A dictionary that Python's pickle reads, with the lines of the program that called each operation.
  std::string pickled();
  // The same as JSON, without these lines.
  std::string json();
  // Writes pickled() where TORCH_FR_DUMP_TEMP_FILE says, followed by the rank.
  void write();
  // An operation has failed: the first time write(), if the user has named a file.
  void note_failure();

 private:
  struct Ring;

  void note_ends();
  template <class Dump>
  std::string dumped(Dump dump);

  std::size_t most_;  // operations
  bool with_stacks_;
  std::atomic<bool> has_written_{false};
  std::mutex mutex_;
  std::unique_ptr<Ring> ring_;
};

}  // namespace rueda
