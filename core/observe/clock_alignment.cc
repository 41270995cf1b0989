// SPDX-License-Identifier: Apache-2.0
#include "core/observe/clock_alignment.h"

#include <algorithm>
#include <utility>

namespace rueda {
namespace {

// First bytes that no Message of core/control has.
enum class Kind : std::uint8_t { ping = 0xC1, answer = 0xC2, done = 0xC3 };

// Some decades: no clock shows more, and sums of a few such numbers do not overflow.
bool possible(std::int64_t nanoseconds) {
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  return nanoseconds > -kMost && nanoseconds < kMost;
}

}  // namespace

ClockAlignment::ClockAlignment(std::optional<Rank> parent, std::vector<Rank> children, std::string machine,
                               JobClock own)
    : parent_(parent),
      unfinished_(std::move(children)),
      machine_(std::move(machine)),
      clock_(own),
      aligned_(!parent) {}

void ClockAlignment::begin(std::int64_t now_ns) {
  if (!aligned_) ping(now_ns);
}

void ClockAlignment::ping(std::int64_t now_ns) {
  sent_ns_ = now_ns;
  Writer writer;
  writer.put(Kind::ping);
  writer.put(++round_);
  outgoing_.push_back({*parent_, writer.take()});
}

bool ClockAlignment::receive(Rank from, ConstBytes bytes, std::int64_t now_ns) {
  Reader reader(bytes);
  const auto kind = static_cast<Kind>(reader.get<std::uint8_t>());
  const auto child = std::ranges::find(unfinished_, from);
  if (kind == Kind::answer && from == parent_) return take_answer(bytes, now_ns);
  if (child == unfinished_.end()) return false;
  if (kind == Kind::done && reader.complete()) {
    unfinished_.erase(child);
    return true;
  }
  const auto round = reader.get<std::uint32_t>();
  if (kind != Kind::ping || !reader.complete()) return false;
  if (aligned_) {
    answer(from, round, now_ns);
  } else if (std::ranges::find(waiting_, from, &Question::child) == waiting_.end()) {
    waiting_.push_back({from, round});  // one from each child: it asks again only after the answer
  }
  return true;
}

void ClockAlignment::answer(Rank child, std::uint32_t round, std::int64_t now_ns) {
  Writer writer;
  writer.put(Kind::answer);
  writer.put(round);
  writer.put_string(machine_);
  writer.put(now_ns + clock_.offset_ns);
  writer.put(clock_.offset_ns);
  writer.put(clock_.origin_ns);
  writer.put(clock_.epoch_us);
  outgoing_.push_back({child, writer.take()});
}

bool ClockAlignment::take_answer(ConstBytes bytes, std::int64_t now_ns) {
  Reader reader(bytes);
  reader.get<std::uint8_t>();
  const auto round = reader.get<std::uint32_t>();
  const std::string machine = reader.get_string();
  const auto time = reader.get<std::int64_t>();
  JobClock clock;
  clock.offset_ns = reader.get<std::int64_t>();
  clock.origin_ns = reader.get<std::int64_t>();
  clock.epoch_us = reader.get<std::int64_t>();
  if (!reader.complete() || aligned_ || round != round_) return false;
  if (!possible(time) || !possible(clock.offset_ns) || !possible(clock.origin_ns)) return false;
  const bool same_clock = !machine.empty() && machine == machine_;
  const std::int64_t took = now_ns - sent_ns_;
  if (!same_clock) clock.offset_ns = time - (sent_ns_ + took / 2);
  if (same_clock || round == 1 || took < shortest_ns_) {
    clock_ = clock;
    shortest_ns_ = took;
  }
  if (same_clock || round == kRounds) {
    settle(now_ns);
  } else {
    ping(now_ns);
  }
  return true;
}

void ClockAlignment::settle(std::int64_t now_ns) {
  aligned_ = true;
  Writer writer;
  writer.put(Kind::done);
  outgoing_.push_back({*parent_, writer.take()});
  for (const Question& question : std::exchange(waiting_, {})) answer(question.child, question.round, now_ns);
}

std::vector<Envelope> ClockAlignment::take_outgoing() { return std::exchange(outgoing_, {}); }

}  // namespace rueda
