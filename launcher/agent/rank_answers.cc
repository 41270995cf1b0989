// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/rank_answers.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <system_error>
#include <utility>

#include "launcher/system/signals.h"

namespace rueda {
namespace {

constexpr std::size_t kMostBytes = 8 << 20;     // of answers: then the next one is made later
constexpr std::size_t kMostWaiting = 48 << 10;  // for ruedarun, of bytes: then parts wait
constexpr auto kUntilRoom = std::chrono::milliseconds(10);

std::string made_by(const RankAnswers::Make& make) {
  try {
    return make();
  } catch (const std::exception&) {
    return "";
  }
}

}  // namespace

RankAnswers::RankAnswers() : made_one_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!made_one_) throw std::system_error(errno, std::generic_category(), "cannot make an eventfd");
}

RankAnswers::~RankAnswers() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    questions_.clear();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void RankAnswers::ask(const agents::Request& request, int rank, Make make) {
  const std::lock_guard lock(mutex_);
  Question question{request.number, rank, request.kind, std::move(make)};
  std::erase_if(questions_, [&](const Question& other) {
    const bool is_old = other.kind == request.kind && other.number != request.number;
    if (is_old) keep(other, "");
    return is_old;
  });
  if (!thread_.joinable()) {
    try {
      thread_ = thread_without_signals([this] { make_answers(); });
    } catch (const std::system_error&) {  // there is no thread
    }
    if (!thread_.joinable()) return keep(question, "");
  }
  questions_.push_back(std::move(question));
  changed_.notify_all();
}

void RankAnswers::answer(std::uint32_t number, int rank, std::string bytes) {
  const std::lock_guard lock(mutex_);
  keep({.number = number, .rank = rank, .make = {}}, std::move(bytes));
}

void RankAnswers::keep(const Question& question, std::string bytes) {
  bytes_ += bytes.size();
  answers_.push_back({question.number, question.rank, std::move(bytes)});
  const std::uint64_t one = 1;
  static_cast<void>(::write(made_one_.number(), &one, sizeof one));
}

void RankAnswers::make_answers() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || (!questions_.empty() && bytes_ < kMostBytes); });
    if (ending_) return;
    const Question question = std::move(questions_.front());
    questions_.pop_front();
    makes_one_ = true;
    lock.unlock();
    std::string bytes = made_by(question.make);
    lock.lock();
    makes_one_ = false;
    keep(question, std::move(bytes));
  }
}

bool RankAnswers::has_any() {
  const std::lock_guard lock(mutex_);
  return makes_one_ || !questions_.empty() || !answers_.empty();
}

void RankAnswers::act(SupervisorLine& supervisor) {
  std::uint64_t count = 0;
  static_cast<void>(::read(made_one_.number(), &count, sizeof count));
  const std::lock_guard lock(mutex_);
  while (!answers_.empty() && supervisor.unsent() < kMostWaiting) {
    Answer& answer = answers_.front();
    std::string part = answer.bytes.substr(answer.sent, agents::kLongestPart);
    answer.sent += part.size();
    const bool is_last = answer.sent == answer.bytes.size();
    supervisor.tell(agents::AnswerPart{answer.number, answer.rank, is_last, std::move(part)});
    if (!is_last) continue;
    bytes_ -= answer.bytes.size();
    answers_.pop_front();
    changed_.notify_all();
  }
  due_ = answers_.empty() ? std::nullopt : std::optional(Clock::now() + kUntilRoom);
}

}  // namespace rueda
