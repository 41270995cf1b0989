// SPDX-License-Identifier: Apache-2.0
// How far the clocks of the ranks are apart.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/control/messages/transport.h"

namespace rueda {

// The offset of rank 0's clock as one rank knows it, and the job's beginning. A plain value.
struct JobClock {
  std::int64_t offset_ns = 0;  // added to this machine's monotonic clock gives rank 0's
  std::int64_t origin_ns = 0;  // when the job began, by rank 0's clock
  std::int64_t epoch_us = 0;   // the same, since 1970

  friend bool operator==(const JobClock&, const JobClock&) = default;
};

// Purpose: one rank's node of a tree in which each rank measures its parent's clock, once, at the start. A
// rank pings its parent, which answers, as soon as it knows rank 0's clock itself, with that clock's time. Of
// kRounds answers the one that took the shortest counts: rank 0's clock is taken to have shown its time in
// the middle, so the error is at most half of that round trip, per level. A parent that reads the same
// physical clock is believed at once. Then the rank tells its parent so: when finished() is true everywhere,
// no message of a clock is left on the way. Pure: bytes and time in, bytes out. Owned by a ProgressEngine.
class ClockAlignment {
 public:
  static constexpr int kRounds = 8;

  // `machine` is equal where the monotonic clock is the same one; empty: nobody knows. At rank 0, which has
  // no parent, `own` is the answer.
  ClockAlignment(std::optional<Rank> parent, std::vector<Rank> children, std::string machine, JobClock own);

  void begin(std::int64_t now_ns);
  // False, and nothing is done, for bytes that are no message of this kind, and for ranks that are neither
  // parent nor child.
  bool receive(Rank from, ConstBytes bytes, std::int64_t now_ns);
  std::vector<Envelope> take_outgoing();

  // The clock is known here and in all children.
  bool finished() const { return aligned_ && unfinished_.empty(); }
  const JobClock& clock() const { return clock_; }
  std::optional<Rank> parent() const { return parent_; }
  bool aligned() const { return aligned_; }
  const std::vector<Rank>& unfinished_children() const { return unfinished_; }

 private:
  void ping(std::int64_t now_ns);
  void answer(Rank child, std::uint32_t round, std::int64_t now_ns);
  bool take_answer(ConstBytes bytes, std::int64_t now_ns);
  void settle(std::int64_t now_ns);

  struct Question {
    Rank child;
    std::uint32_t round;
  };

  std::optional<Rank> parent_;
  std::vector<Rank> unfinished_;
  std::string machine_;
  JobClock clock_;
  bool aligned_;
  std::uint32_t round_ = 0;  // of the ping that is on its way
  std::int64_t sent_ns_ = 0;
  std::int64_t shortest_ns_ = 0;
  std::vector<Question> waiting_;  // until this rank knows
  std::vector<Envelope> outgoing_;
};

}  // namespace rueda
