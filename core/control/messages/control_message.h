// SPDX-License-Identifier: Apache-2.0
// The messages of the control tree. Each kind has a writer and a bounded reader; no other code reads received
// bytes.
//   up:    Hello (once, at start), Report, Abort, Stall, Answer, Failure
//   down:  Welcome or Referral (once, at start), Orders, Abort, Inquiry, Missing, Failure
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/control/messages/plan.h"
#include "core/control/messages/request.h"
#include "rueda/rank_set.h"

namespace rueda {

// Introduces a rank to its parent before all other messages.
struct Introduction {
  Rank rank = 0;
  std::string version;
  std::string host;
  std::int64_t process_id = 0;
  std::vector<std::string> settings;  // "NAME=value" of every setting, in the table's order
  std::string peer_info;              // how ranks of its host can share memory with it; read by ops alone
  std::string process_sets;           // given to init(), in words that differ where the sets do
  std::uint64_t job = 0;              // how many jobs the process has had before
  std::string relay;                  // how others take the Welcome from it; empty: they cannot
  Rank local_rank = -1;               // of an earlier generation of an elastic job; -1: it was in none
  std::uint64_t steps = 0;            // of training, which its process has counted so far

  friend bool operator==(const Introduction&, const Introduction&) = default;
};

// The introductions of a whole subtree.
struct Hello {
  std::vector<Introduction> ranks;
  friend bool operator==(const Hello&, const Hello&) = default;
};

// Everybody is there (or the job cannot start: `status`); hosts[r], process_ids[r], peer_infos[r] belong to
// rank r.
struct Welcome {
  Status status;
  std::vector<std::string> hosts;
  std::vector<std::int64_t> process_ids;
  std::vector<std::string> peer_infos;
  std::vector<Rank> local_ranks;  // as introduced; empty: nobody has one
  std::uint64_t job = 0;          // more than any of the processes has had before
  std::uint64_t steps = 0;        // the most that one of the processes has counted
  friend bool operator==(const Welcome&, const Welcome&) = default;
};

// Rank 0's word to a rank that is to take the Welcome from another one.
struct Referral {
  Rank to = 0;
  std::string relay;  // of that rank's introduction
  friend bool operator==(const Referral&, const Referral&) = default;
};

// One Request and the ranks that have it.
struct RequestOfRanks {
  SharedRequest request;
  RankSet ranks;
  friend bool operator==(const RequestOfRanks& a, const RequestOfRanks& b) {
    return *a.request == *b.request && a.ranks == b.ranks;
  }
};

// Tensors that a whole subtree has reported, and who departed or rests. In one message: whoever hears that
// some ranks want a tensor must know at once that the others will not come.
struct Report {
  std::uint64_t applied = 0;  // the last Plan that the sender has seen
  IdSet ids;                  // wanted by all members below the sender, as the cache has them
  std::vector<std::vector<RequestOfRanks>>
      tensors;       // in full: no inner vector is empty, and all its requests have one key
  RankSet departed;  // will submit nothing more, after this
  RankSet rested;    // departed, and have carried out all they asked for: no Abort comes from there any more
  bool empty() const { return ids.empty() && tensors.empty() && departed.empty() && rested.empty(); }
  friend bool operator==(const Report&, const Report&) = default;
};

// The next Plans for every rank. `end` is true after the last Plan of the job.
struct Orders {
  std::vector<Plan> plans;
  bool end = false;
  friend bool operator==(const Orders&, const Orders&) = default;
};

// A Plan whose Work failed on some rank. Up: on the way to rank 0. Down, outside the sequence of Plans: ranks
// that have not finished that Plan give it up and complete its tensors with this Status.
struct Abort {
  std::uint64_t plan = 0;
  Status status;  // not ok
  friend bool operator==(const Abort&, const Abort&) = default;
};

// Somebody below has waited long for others.
struct Stall {
  SharedRequest request;
  std::uint64_t plan = 0;  // the Plan of a Work that does not move; 0: no Plan has called the request
  friend bool operator==(const Stall& a, const Stall& b) {
    return *a.request == *b.request && a.plan == b.plan;
  }
};

// An operation of which is asked: as long as it is not complete, or in that Plan.
struct Asked {
  Key key;
  std::uint64_t plan = 0;
  friend bool operator==(const Asked&, const Asked&) = default;
};

// Rank 0 asks everybody what they know about these operations.
struct Inquiry {
  std::uint32_t number = 0;
  double timeout = 0;  // seconds until an answer is of no use
  std::vector<Asked> operations;
  friend bool operator==(const Inquiry&, const Inquiry&) = default;
};

// The state of one operation on the ranks of a subtree, as their answers tell it.
struct Standing {
  RankSet waiting;                                  // have submitted it, and are not through
  RankSet missing;                                  // have not
  RankSet silent;                                   // did not answer
  std::vector<std::pair<Rank, std::string>> words;  // the activity of some awaited ranks, ascending
  bool pauses = false;                              // all that are missing evaluate or save
  friend bool operator==(const Standing&, const Standing&) = default;
};

struct Answer {
  std::uint32_t number = 0;
  std::vector<Standing> standings;  // one for each operation of the Inquiry
  friend bool operator==(const Answer&, const Answer&) = default;
};

// The ranks that have not submitted these operations, and their activity, in words for all that wait.
struct Missing {
  std::vector<Key> operations;
  std::string words;
  friend bool operator==(const Missing&, const Missing&) = default;
};

// The job cannot go on, for this reason.
struct Failure {
  Status status;
  friend bool operator==(const Failure&, const Failure&) = default;
};

// A longer peer_info is an error of the message that carries it.
inline constexpr std::size_t kLongestPeerInfo = 1024;

using Message =
    std::variant<Hello, Welcome, Report, Orders, Failure, Stall, Inquiry, Answer, Abort, Referral, Missing>;

Bytes encode(const Message& message);
// The same, of what is sent most.
Bytes encode(const Report& report);
Bytes encode(const Orders& orders);
// Nothing when the bytes are not exactly one well-formed message.
std::optional<Message> decode(ConstBytes bytes);

void write(Writer& writer, const Status& status);
Status read_status(Reader& reader);

}  // namespace rueda
