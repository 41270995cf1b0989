// SPDX-License-Identifier: Apache-2.0
// Texts of a job on their way from ruedarun's loop to those who watch.
#pragma once

#include <array>
#include <bitset>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "launcher/system/descriptor.h"

namespace rueda {

// What somebody may ask of the loop, beside the events. All but the last two only read.
enum class Inquiry : std::uint8_t { status, metrics, stacks, dump, timeline, stop };
inline constexpr std::size_t kInquiries = 6;

// Purpose: the one thing that the loop of ruedarun shares with the threads of its page. The loop puts
// finished texts in and never waits. A reader that falls behind gets everything anew, so none holds memory.
// Any thread may call it, under a mutex; lives as long as the page.
class EventFeed {
 public:
  using Clock = std::chrono::steady_clock;
  using Text = std::shared_ptr<const std::string>;  // copied by nobody
  static constexpr int kMostWatchers = 16;

  // Throws std::system_error.
  EventFeed();

  // For the loop.
  struct Wanted {
    bool watched = false;               // somebody reads events
    bool snapshot = false;              // a reader needs everything
    std::bitset<kInquiries> inquiries;  // without an answer yet

    bool wants(Inquiry inquiry) const { return inquiries[static_cast<std::size_t>(inquiry)]; }
  };
  int descriptor() const { return wakes_loop_.number(); }  // readable: take_wanted() has news
  Wanted take_wanted();
  void publish(std::string event);
  // As of the events so far.
  void give_snapshot(std::string events);
  // For all who have asked that so far.
  void answer(Inquiry inquiry, std::string text);
  // What the last one who asked it has added.
  std::string words(Inquiry inquiry);
  // Readers get what is there, and then the end. Waits for that until `until`.
  void finish(Clock::time_point until);
  void close();

  // For a thread of a reader.
  struct Reader {
    std::uint64_t next = 0;      // number of an event
    std::uint64_t snapshot = 0;  // that it awaits; 0: none
  };
  std::optional<Reader> begin();  // nothing: there are too many
  void end();
  // What is new; a comment where nothing is for a while, which shows whether the reader lives; null at the
  // end.
  Text next(Reader& reader);
  // Null where the loop does not answer in time, which is longer where ranks have to be asked.
  Text ask(Inquiry inquiry, const std::string& words = "");

 private:
  struct Question {
    std::uint64_t asked = 0, answered = 0;  // so often
    int waiting = 0;                        // for it
    Text answer;
    std::string words;
  };
  struct Snapshot {
    Question question;
    std::uint64_t next = 0;  // the event behind it
  };

  Question& question(Inquiry inquiry) { return questions_[static_cast<std::size_t>(inquiry)]; }
  void answer(Question& question, Text text);
  void await_snapshot(Reader& reader);
  void wake_loop();
  bool has_news(const Reader& reader) const;
  std::uint64_t end_number() const { return first_ + events_.size(); }

  std::mutex mutex_;
  std::condition_variable changed_;
  Descriptor wakes_loop_;
  int watchers_ = 0;
  int unfinished_ = 0;  // of them, that have not got all
  bool finished_ = false;
  bool closed_ = false;
  std::deque<Text> events_;  // the last ones
  std::uint64_t first_ = 0;  // number of the first of these
  std::size_t bytes_ = 0;    // of all
  Snapshot snapshot_;
  std::array<Question, kInquiries> questions_;
};

}  // namespace rueda
