// SPDX-License-Identifier: Apache-2.0
#include "ops/tcp/rail_pace.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>

#include "ops/tcp/frame.h"

namespace rueda {
namespace {

constexpr double kHeld = 0.004;  // seconds
constexpr auto kMeasure = std::chrono::milliseconds(5);
constexpr double kWeight = 0.25;  // of the newest measurement
constexpr std::size_t kLeast = 2 * RailPace::kShort;

}  // namespace

RailPace::Sight RailPace::look_at(int socket) {
  Sight sight;
  int held = 0;
  if (::ioctl(socket, SIOCOUTQ, &held) == 0) sight.held = static_cast<std::size_t>(held);
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0)
    sight.trip = std::chrono::microseconds(info.tcpi_min_rtt);
  return sight;
}

std::size_t RailPace::room(const Sight& sight, std::uint64_t written, Time now) {
  measure(sight, written - sight.held, now);
  if (!rate_) return Frame::kMostData;
  const double seconds = kHeld + 2 * std::chrono::duration<double>(sight.trip).count();
  const std::size_t most = std::max(static_cast<std::size_t>(*rate_ * seconds), kLeast);
  const std::size_t fragment = std::min(most / 2, Frame::kMostData);
  return sight.held + fragment <= most ? fragment : 0;
}

void RailPace::measure(const Sight& sight, std::uint64_t arrived, Time now) {
  if (idle_ || sight.held == 0) {
    idle_ = sight.held == 0;
  } else if (now - since_ >= kMeasure) {
    const double rate =
        static_cast<double>(arrived - arrived_) / std::chrono::duration<double>(now - since_).count();
    rate_ = rate_ ? *rate_ + kWeight * (rate - *rate_) : rate;
  } else {
    return;
  }
  arrived_ = arrived;
  since_ = now;
}

}  // namespace rueda
