// SPDX-License-Identifier: Apache-2.0
// Ranks that record operations, and the answers of their agents.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/observe/recorder.h"
#include "launcher/dump/recordings_message.h"

namespace rueda {

// Purpose: the Recorders of the ranks of one Runtime. A plain value of tests.
class RecordedRanks {
 public:
  explicit RecordedRanks(Rank size, std::string name = "", std::vector<Rank> ranks = {},
                         std::uint64_t job = 0)
      : recorders_(static_cast<std::size_t>(size)), name_(std::move(name)), ranks_(std::move(ranks)) {
    for (Rank rank = 0; rank < size; ++rank) of(rank).identify(rank, size, job);
  }

  Recorder& of(Rank rank) { return recorders_.at(static_cast<std::size_t>(rank)); }

  static Request request(const std::string& name, Operation operation = Operation::allreduce,
                         Shape shape = {4}, ProcessSetId set = kWorld) {
    Request request;
    request.name = name;
    request.operation = operation;
    request.shape = std::move(shape);
    request.process_set = set;
    return request;
  }

  Flight submit(Rank rank, const Request& request) { return of(rank).submitted(request.name, request); }

  // On all ranks: it completes, in that Plan.
  void complete(const Request& request, std::uint64_t plan) {
    for (Rank rank = 0; rank < static_cast<Rank>(recorders_.size()); ++rank) complete(rank, request, plan);
  }
  void complete(Rank rank, const Request& request, std::uint64_t plan) {
    const Flight flight = submit(rank, request);
    of(rank).planned(flight, plan);
    of(rank).started(flight);
    of(rank).completed(flight, true);
  }

  // The answer for a rank.
  std::string answer(Rank rank) {
    RankRecordingsWriter writer(monotonic_ns());
    std::string runs;
    for (const Rank each : ranks_) runs += (runs.empty() ? "" : ",") + std::to_string(each);
    writer.add(runs.empty() ? "-" : runs, name_, of(rank).page());
    return writer.take();
  }
  std::map<int, std::string> answers() {
    std::map<int, std::string> all;
    for (Rank rank = 0; rank < static_cast<Rank>(recorders_.size()); ++rank)
      all[rank_of_job(rank)] = answer(rank);
    return all;
  }
  std::map<Rank, RankRecording> recordings() {
    std::map<Rank, RankRecording> all;
    for (const auto& [rank, bytes] : answers()) all.emplace(rank, read_rank_recordings(bytes).value());
    return all;
  }

 private:
  Rank rank_of_job(Rank rank) const {
    return ranks_.empty() ? rank : ranks_.at(static_cast<std::size_t>(rank));
  }

  std::deque<Recorder> recorders_;
  std::string name_;
  std::vector<Rank> ranks_;
};

}  // namespace rueda
