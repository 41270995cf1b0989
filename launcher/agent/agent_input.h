// SPDX-License-Identifier: Apache-2.0
// The standard input of rank 0, where ruedarun is on another host.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "launcher/system/descriptor.h"

namespace rueda {

// Purpose: a pipe to rank 0. Text waits here as long as the rank does not read; ruedarun sends no more than
// a few pieces ahead. Owned by the agent's thread.
class AgentInput {
 public:
  // The end that the rank reads. Throws std::system_error.
  Descriptor open();
  // Empty text is the end of the input.
  void add(std::string_view text);
  // Writes as much as the pipe takes; how many bytes that were.
  std::uint32_t write();
  // Becomes writable when write() has something to do; -1 when it has not.
  int descriptor() const { return waiting_.empty() ? -1 : pipe_.number(); }

 private:
  Descriptor pipe_;
  std::string waiting_;
  bool ended_ = false;
};

}  // namespace rueda
