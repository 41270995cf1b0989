// SPDX-License-Identifier: Apache-2.0
// The answers of this host's ranks to requests of ruedarun.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "launcher/agent/supervisor_line.h"
#include "launcher/protocol/request.h"
#include "launcher/system/descriptor.h"

namespace rueda {

// Purpose: a thread of its own makes the answers, one after the other. They leave in parts, as ruedarun takes
// them: output of ranks comes first. Owned by the agent's thread.
class RankAnswers {
 public:
  using Clock = std::chrono::steady_clock;
  // Called by the other thread. It takes two seconds at most.
  using Make = std::function<std::string()>;

  RankAnswers();   // throws std::system_error
  ~RankAnswers();  // waits for the answer that is being made; those that wait are not made
  RankAnswers(const RankAnswers&) = delete;
  RankAnswers& operator=(const RankAnswers&) = delete;

  // Of rank `rank`, for that request. An answer that throws is empty. Questions of an earlier request of this
  // kind are not asked any more: their answers are empty.
  void ask(const agents::Request& request, int rank, Make make);
  // One that is there already.
  void answer(std::uint32_t number, int rank, std::string bytes);

  bool has_any();                                        // that have not left, or are to be made
  int descriptor() const { return made_one_.number(); }  // readable: act() has something to send
  void act(SupervisorLine& supervisor);
  std::optional<Clock::time_point> next_time() const { return due_; }  // act() is due then, too

 private:
  struct Question {
    std::uint32_t number = 0;
    int rank = 0;
    agents::RequestKind kind = agents::RequestKind::stacks;
    Make make;
  };
  struct Answer {
    std::uint32_t number = 0;
    int rank = 0;
    std::string bytes;
    std::size_t sent = 0;
  };

  void make_answers();
  void keep(const Question& question, std::string bytes);  // with the lock

  const Descriptor made_one_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Question> questions_;
  std::deque<Answer> answers_;
  std::size_t bytes_ = 0;  // of the answers
  bool makes_one_ = false;
  bool ending_ = false;
  std::thread thread_;  // begins with the first question
  std::optional<Clock::time_point> due_;
};

}  // namespace rueda
