// SPDX-License-Identifier: Apache-2.0
#include "core/engine/clock_exchange.h"

#include <fmt/format.h>
#include <sched.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <utility>

#include "core/engine/submissions/work_failure.h"

namespace rueda {
namespace {

constexpr auto kPollFor = std::chrono::milliseconds(10);
constexpr auto kLongestWait = std::chrono::milliseconds(10);
constexpr auto kLookAgain = std::chrono::microseconds(200);  // where nothing tells of a message

// Processes with equal words read one monotonic clock: one kernel, one time namespace.
std::string clock_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code error;
  const std::filesystem::path space = std::filesystem::read_symlink("/proc/self/ns/time", error);
  return boot.empty() ? boot : fmt::format("{} {}", boot, space.string());
}

JobClock clock_that_begins_now() {
  using std::chrono::duration_cast, std::chrono::microseconds, std::chrono::system_clock;
  return {0, monotonic_ns(), duration_cast<microseconds>(system_clock::now().time_since_epoch()).count()};
}

Status not_heard(const ClockAlignment& alignment) {
  const Rank whom = alignment.aligned() ? alignment.unfinished_children().front() : *alignment.parent();
  return Status::peer_lost(
      fmt::format("init: rank {} came, but did not answer when clocks were compared. Look at what it does; "
                  "RUEDA_START_TIMEOUT allows more time.",
                  whom));
}

}  // namespace

void wait_for_message(Transport& transport, EventCount& doorbell, std::uint32_t heard) {
  if (transport.rings_doorbell()) {
    doorbell.sleep(heard, kLongestWait);
  } else if (!transport.wait(kLongestWait)) {
    doorbell.sleep(heard, kLookAgain);
  }
}

ClockExchange exchange_clocks(ClockNeighbours neighbours, Transport* transport, RuntimeState& shared,
                              Time expires, const std::function<std::vector<Rank>()>& lost) {
  shared.observer.doing("comparing clocks");
  ClockAlignment alignment(neighbours.parent, std::move(neighbours.children), clock_identity(),
                           clock_that_begins_now());
  ClockExchange result;
  Time heard = clock_now();
  alignment.begin(monotonic_ns());
  while (transport != nullptr) {
    const std::uint32_t rings = shared.doorbell->listen();  // before the look at what has come
    shared.heartbeat.fetch_add(1, std::memory_order_relaxed);
    for (Envelope& envelope : alignment.take_outgoing())
      transport->send(envelope.peer, std::move(envelope.bytes));
    if (alignment.finished()) break;
    if (std::optional<Envelope> envelope = transport->receive()) {
      if (!alignment.receive(envelope->peer, envelope->bytes, monotonic_ns()))
        result.early.push_back(std::move(*envelope));
      heard = clock_now();
    } else if (const std::vector<Rank> gone = lost(); !gone.empty()) {
      throw PeerGone(gone.front());
    } else if (clock_now() > expires || shared.unwanted.load()) {
      result.status = not_heard(alignment);
      break;
    } else if (!neighbours.on_this_host && clock_now() - heard < kPollFor) {
      sched_yield();  // a sleep would be measured as distance
    } else {
      wait_for_message(*transport, *shared.doorbell, rings);
    }
  }
  shared.doorbell->stay_awake();
  result.clock = alignment.clock();
  return result;
}

}  // namespace rueda
