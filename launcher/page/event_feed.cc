// SPDX-License-Identifier: Apache-2.0
#include "launcher/page/event_feed.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace rueda {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostEvents = 128;
constexpr std::size_t kMostBytes = 16 << 20;
constexpr auto kUntilAnswer = 5s;
constexpr auto kUntilRanksAnswer = 75s;
constexpr auto kUntilComment = 5s;

EventFeed::Text text_of(std::string text) { return std::make_shared<const std::string>(std::move(text)); }

}  // namespace

EventFeed::EventFeed() : wakes_loop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wakes_loop_) throw std::system_error(errno, std::generic_category(), "cannot make an eventfd");
}

void EventFeed::wake_loop() {
  const std::uint64_t one = 1;
  static_cast<void>(::write(wakes_loop_.number(), &one, sizeof one));
}

EventFeed::Wanted EventFeed::take_wanted() {
  std::uint64_t count = 0;
  static_cast<void>(::read(wakes_loop_.number(), &count, sizeof count));
  const std::lock_guard lock(mutex_);
  const auto is_open = [](const Question& question) { return question.asked > question.answered; };
  Wanted wanted{.watched = watchers_ > 0, .snapshot = is_open(snapshot_.question), .inquiries = {}};
  for (std::size_t i = 0; i < kInquiries; ++i) wanted.inquiries[i] = is_open(questions_[i]);
  return wanted;
}

void EventFeed::publish(std::string event) {
  Text text = text_of(std::move(event));
  {
    const std::lock_guard lock(mutex_);
    bytes_ += text->size();
    events_.push_back(std::move(text));
    for (; events_.size() > kMostEvents || (bytes_ > kMostBytes && events_.size() > 1); ++first_) {
      bytes_ -= events_.front()->size();
      events_.pop_front();
    }
  }
  changed_.notify_all();
}

void EventFeed::answer(Question& question, Text text) {
  question.answer = std::move(text);
  question.answered = question.asked;
  changed_.notify_all();
}

void EventFeed::give_snapshot(std::string events) {
  Text shared = text_of(std::move(events));
  const std::lock_guard lock(mutex_);
  snapshot_.next = end_number();
  answer(snapshot_.question, std::move(shared));
}

void EventFeed::answer(Inquiry inquiry, std::string text) {
  Text shared = text_of(std::move(text));
  const std::lock_guard lock(mutex_);
  Question& asked = question(inquiry);
  answer(asked, asked.waiting > 0 ? std::move(shared) : nullptr);
}

std::string EventFeed::words(Inquiry inquiry) {
  const std::lock_guard lock(mutex_);
  return question(inquiry).words;
}

void EventFeed::finish(Clock::time_point until) {
  std::unique_lock lock(mutex_);
  finished_ = true;
  unfinished_ = watchers_;
  changed_.notify_all();
  changed_.wait_until(lock, until, [this] { return unfinished_ <= 0; });
}

void EventFeed::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

std::optional<EventFeed::Reader> EventFeed::begin() {
  const std::lock_guard lock(mutex_);
  if (watchers_ >= kMostWatchers || closed_ || finished_) return std::nullopt;
  ++watchers_;
  wake_loop();
  return Reader{.next = 0, .snapshot = ++snapshot_.question.asked};
}

void EventFeed::end() {
  const std::lock_guard lock(mutex_);
  --watchers_;
  --unfinished_;
  changed_.notify_all();
  wake_loop();
}

bool EventFeed::has_news(const Reader& reader) const {
  if (reader.snapshot > 0) return snapshot_.question.answered >= reader.snapshot;
  return reader.next >= first_ && reader.next < end_number();
}

// Events that it has not seen are gone. At the end nobody answers: then it goes on with the oldest one.
void EventFeed::await_snapshot(Reader& reader) {
  if (finished_) {
    reader.next = first_;
    return;
  }
  reader.snapshot = ++snapshot_.question.asked;
  wake_loop();
}

// Others publish between a wake-up and this thread's turn, so a reader may fall behind in the wait.
EventFeed::Text EventFeed::next(Reader& reader) {
  const auto is_behind = [&] { return reader.snapshot == 0 && reader.next < first_; };
  const auto until = Clock::now() + kUntilComment;
  std::unique_lock lock(mutex_);
  for (bool in_time = true;;) {
    if (closed_) return nullptr;
    if (is_behind()) await_snapshot(reader);
    if (has_news(reader)) break;
    if (finished_) return nullptr;
    if (!in_time) return text_of(":\n\n");
    in_time = changed_.wait_until(lock, until,
                                  [&] { return closed_ || finished_ || is_behind() || has_news(reader); });
  }
  if (reader.snapshot == 0) return events_[static_cast<std::size_t>(reader.next++ - first_)];
  reader.snapshot = 0;
  reader.next = snapshot_.next;
  return snapshot_.question.answer;
}

// An answer may be long, so that nobody keeps it after those who have asked.
EventFeed::Text EventFeed::ask(Inquiry inquiry, const std::string& words) {
  const bool reads = inquiry == Inquiry::status || inquiry == Inquiry::metrics;
  std::unique_lock lock(mutex_);
  Question& asked = question(inquiry);
  asked.words = words;
  const std::uint64_t number = ++asked.asked;
  ++asked.waiting;
  wake_loop();
  changed_.wait_for(lock, reads ? kUntilAnswer : kUntilRanksAnswer,
                    [&] { return closed_ || asked.answered >= number; });
  Text text = asked.answered >= number ? asked.answer : nullptr;
  if (--asked.waiting == 0) asked.answer.reset();
  return text;
}

}  // namespace rueda
