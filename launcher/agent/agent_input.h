// SPDX-License-Identifier: Apache-2.0
// The standard input of rank 0, where ruedarun is on another host, or where the rank has a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "launcher/system/descriptor.h"
#include "launcher/system/pseudo_terminal.h"

namespace rueda {

// Purpose: a pipe to rank 0, or the keys of its terminal. Text waits here as long as the rank does not read;
// ruedarun sends no more than a few pieces ahead. Owned by the agent's thread.
class AgentInput {
 public:
  // The end that the rank reads. Throws std::system_error.
  Descriptor open();
  void open(std::shared_ptr<PseudoTerminal> terminal) { terminal_ = std::move(terminal); }
  // The rank has ended. A terminal that nobody reads would seem to be ready for ever.
  void leave_terminal();
  const PseudoTerminal* terminal() const { return terminal_.get(); }  // null: none
  void add(std::string_view text);
  void skip(std::size_t bytes) { skipped_ += bytes; }  // somebody else has taken them
  void end();
  // Writes as much as the rank takes; how many bytes of ruedarun's text that were.
  std::uint32_t write();
  // Becomes writable when write() has something to do; -1 when it has not.
  int descriptor() const { return waiting_.empty() ? -1 : target(); }

 private:
  int target() const { return terminal_ ? terminal_->descriptor() : pipe_.number(); }

  Descriptor pipe_;
  std::shared_ptr<PseudoTerminal> terminal_;
  std::string waiting_;
  char last_ = '\n';
  std::size_t skipped_ = 0;
  bool ended_ = false;
};

}  // namespace rueda
