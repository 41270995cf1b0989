// SPDX-License-Identifier: Apache-2.0
// The two versions of PMI, as texts: their requests, and where a message ends.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rueda {

// Throws BackendError with the remedy; `why` goes on a sentence about the process manager.
[[noreturn]] void blame_process_manager(const std::string& why);

// The identity of a process, as PMI tells it.
struct PmiProcess {
  int descriptor = -1;  // PMI_FD, a Unix stream socket
  int rank = 0;
  int size = 1;
  std::string job;  // PMI_JOBID, which Slurm sets where it speaks PMI-2; else empty
};

// Purpose: a request, and the "cmd" of its answer.
struct PmiRequest {
  std::string text;
  std::string_view answer;
};

// Purpose: one version of PMI. Knows no socket, and has no state. `space` is what keys belong to.
class PmiDialect {
 public:
  virtual ~PmiDialect() = default;
  virtual std::string_view name() const = 0;  // for messages

  // A line in both versions.
  virtual PmiRequest greeting() const = 0;
  // Said afterwards; the last answer has a field `space_field`.
  virtual std::vector<PmiRequest> introduction(const PmiProcess& process) const = 0;
  virtual std::string_view space_field() const = 0;

  virtual PmiRequest put(std::string_view space, std::string_view key, std::string_view value) const = 0;
  virtual PmiRequest get(std::string_view space, std::string_view key) const = 0;
  // Answered when all processes have said it.
  virtual PmiRequest barrier() const = 0;
  virtual PmiRequest finalize() const = 0;

  virtual std::string framed(const std::string& message) const = 0;
  // Takes the first whole message out of what has been heard; nothing when more bytes are needed. Throws
  // BackendError for what is no message.
  virtual std::optional<std::string> take(std::string& heard) const = 0;
  virtual std::string_view field(std::string_view message, std::string_view name) const = 0;
};

// PMI-2 where Slurm has begun it, else PMI-1.
std::unique_ptr<const PmiDialect> dialect_of(const PmiProcess& process);

// A line of either version: takes it out of `heard`, or throws when it has no end.
std::optional<std::string> take_pmi_line(std::string& heard);

}  // namespace rueda
