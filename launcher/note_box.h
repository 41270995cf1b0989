// SPDX-License-Identifier: Apache-2.0
// How agents tell the supervisor how their ranks ended.
#pragma once

#include <optional>
#include <string>

#include "launcher/descriptor.h"

namespace rueda {

// How a rank ended: `status` is what wait() says.
struct Note {
  int rank = 0;
  int status = 0;
};

// Purpose: a datagram socket with a name of its own that leaves no file behind; agents on this machine write
// to it. From other machines no note arrives, and Hydra's status is all that is known. Owner: the main thread
// of the supervisor.
class NoteBox {
 public:
  explicit NoteBox(const std::string& token);

  const std::string& address() const { return address_; }
  int descriptor() const { return socket_.number(); }
  std::optional<Note> take();

 private:
  std::string address_;
  Descriptor socket_;
};

// By an agent. Does nothing when there is no box at `address`.
void leave_note(const std::string& address, const Note& note);

// By an agent: whether there is a box at `address`, that is, whether the supervisor lives on this machine.
bool is_box(const std::string& address);

}  // namespace rueda
