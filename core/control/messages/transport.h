// SPDX-License-Identifier: Apache-2.0
// How control messages travel between ranks: small, reliable, first in first out between any two ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/time.h"
#include "rueda/types.h"

namespace rueda {

struct Envelope {
  Rank peer = 0;  // who sent it, or to whom it goes
  Bytes bytes;
};

// Purpose: carries control messages. Owned and called by the background thread alone; no call blocks. Lives
// as long as its Runtime. Destruction may wait, boundedly, until what was sent has left.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual void send(Rank to, Bytes bytes) = 0;
  virtual std::optional<Envelope> receive() = 0;
  // Ranks that are known to have died, each told once. Asked in each turn: what is to be done now and then is
  // done here, when it is due.
  virtual std::vector<Rank> lost(Time now) = 0;
  // Whether an arriving message rings the Runtime's doorbell; if not, the background thread has to look.
  virtual bool rings_doorbell() const = 0;
  // Whether nothing has come that receive() would return, nothing waits to leave, and both would ring. False
  // where that takes more than a look at memory.
  virtual bool quiet() const { return false; }
  // The job has come to its end on all ranks: the end of this object is no loss to the others.
  virtual void end_in_order() {}
  // The job has failed, and a launcher tells all ranks so: destruction waits for nobody.
  virtual void cut() {}
  // Sends what has been queued, as far as the network takes it now; whether all of it has left.
  virtual bool drain() { return true; }
  // During the start: sleeps until something may have come, for `longest` at most. False, and at once, where
  // it cannot tell: then the caller has to look again and again.
  virtual bool wait(Duration longest) {
    static_cast<void>(longest);
    return false;
  }
  // During the start: why a rank may not be reached, "127.0.0.1:4242: Connection refused"; empty where this
  // is not known.
  virtual std::string obstacle() const { return ""; }
  // During the start: whether only rank 0 can be reached, and by rank 0 all.
  virtual bool only_reaches_root() const { return false; }
  // During the start: a text by which other ranks can take the Welcome from this one, and then only; empty
  // where they cannot. drain() waits for them, for some seconds.
  virtual std::string relay() const { return ""; }
  // During the start: the Welcome comes from that rank. `relay` is its text.
  virtual void take_welcome_from(Rank rank, const std::string& relay) {
    static_cast<void>(rank);
    static_cast<void>(relay);
  }
  // During the start: since when rank 0 knows that this rank is there; nothing before, and where that is not
  // known. From then on rank 0 tells when waiting has lasted too long.
  virtual std::optional<Time> known_to_root_since() const { return std::nullopt; }
};

}  // namespace rueda
