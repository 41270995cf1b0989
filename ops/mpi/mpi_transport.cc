// SPDX-License-Identifier: Apache-2.0
#include "ops/mpi/mpi_transport.h"

#include <sched.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "ops/mpi/failed_ranks.h"
#include "ops/mpi/mpi_check.h"

namespace rueda {
bool MpiTransport::Message::done() {
  int flag = 0;
  check(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), "MPI_Test");
  return flag != 0;
}

// The last messages (the end of the job, or why it failed) should still arrive; a lost peer must not block
// us.
MpiTransport::~MpiTransport() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  try {
    while (!sending_.empty() && std::chrono::steady_clock::now() < deadline) {
      retire_sent();
      sched_yield();
    }
  } catch (const Error&) {  // the message is lost; there is nobody left to tell
  }
}

void MpiTransport::send(Rank to, Bytes bytes) {
  owner_.check();
  retire_sent();
  Message& message = sending_.emplace_back();
  message.envelope = {to, std::move(bytes)};
  Bytes& content = message.envelope.bytes;
  check(MPI_Isend(content.data(), message_count(content.size()), MPI_BYTE, to, tag(), group_.control(),
                  &message.request),
        "MPI_Isend");
}

// Taken with the first message, so that a transport that is never used counts on no rank.
int MpiTransport::tag() {
  if (!tag_) tag_ = group_.next_job_tag();
  return *tag_;
}

// Takes messages of this job alone: those of the next one, which a peer may have begun already, have another
// tag and wait for its transport.
std::optional<Envelope> MpiTransport::receive() {
  owner_.check();
  if (!receiving_ && !accept_arriving()) return std::nullopt;
  if (!receiving_->done()) return std::nullopt;
  Envelope envelope = std::move(receiving_->envelope);
  receiving_.reset();
  return envelope;
}

bool MpiTransport::accept_arriving() {
  int flag = 0;
  MPI_Message arriving = MPI_MESSAGE_NULL;
  MPI_Status status;
  check(MPI_Improbe(MPI_ANY_SOURCE, tag(), group_.control(), &flag, &arriving, &status), "MPI_Improbe");
  if (flag == 0) return false;
  int size = 0;
  check(MPI_Get_count(&status, MPI_BYTE, &size), "MPI_Get_count");
  Message& message = receiving_.emplace();
  message.envelope = {status.MPI_SOURCE, Bytes(static_cast<std::size_t>(size))};
  check(MPI_Imrecv(message.envelope.bytes.data(), size, MPI_BYTE, &arriving, &message.request), "MPI_Imrecv");
  return true;
}

void MpiTransport::retire_sent() {
  while (!sending_.empty() && sending_.front().done()) sending_.pop_front();
}

// Asks both sources ten times a second. MPICH knows within milliseconds of the death (asking costs about 0.1
// ms); the agent also knows how the process ended. A loss that MPICH alone reports is passed on a little
// later, so that the reason can come first. The agent reports no reason for a rank that ended well.
std::vector<Rank> MpiTransport::lost(Time now) {
  if (now - looked_for_lost_ < std::chrono::milliseconds(100)) return {};
  looked_for_lost_ = now;
  std::vector<Rank> found = std::exchange(named_by_mpi_, failed_in_mpi());
  if (!mpi_.agent()) std::ranges::copy(std::exchange(named_by_mpi_, {}), std::back_inserter(found));
  for (const LostPeer& peer : mpi_.agent().lost(named_by_agent_)) {
    const std::optional<Rank> rank = group_.of_world(peer.rank);
    if (rank && *rank != group_.rank()) found.push_back(*rank);
  }
  std::vector<Rank> fresh;
  for (Rank rank : found) {
    if (std::ranges::find(known_lost_, rank) != known_lost_.end()) continue;
    known_lost_.push_back(rank);
    fresh.push_back(rank);
  }
  if (!fresh.empty()) MpiRuntime::mark_lost();
  return fresh;
}

// All of them, when there are more than last time.
std::vector<Rank> MpiTransport::failed_in_mpi() {
  MPI_Group failed = failed_ranks(group_.control()), all = MPI_GROUP_NULL;
  int count = 0;
  check(MPI_Group_size(failed, &count), "MPI_Group_size");
  std::vector<Rank> ranks;
  if (count > failed_in_mpi_) {
    failed_in_mpi_ = count;
    std::vector<int> numbers(static_cast<std::size_t>(count));
    std::iota(numbers.begin(), numbers.end(), 0);
    ranks.resize(numbers.size());
    check(MPI_Comm_group(group_.control(), &all), "MPI_Comm_group");
    check(MPI_Group_translate_ranks(failed, count, numbers.data(), all, ranks.data()),
          "MPI_Group_translate_ranks");
    check(MPI_Group_free(&all), "MPI_Group_free");
  }
  if (failed != MPI_GROUP_EMPTY) check(MPI_Group_free(&failed), "MPI_Group_free");
  return ranks;
}

}  // namespace rueda
