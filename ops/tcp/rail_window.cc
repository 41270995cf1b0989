// SPDX-License-Identifier: Apache-2.0
#include "ops/tcp/rail_window.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "ops/tcp/frame.h"

namespace rueda {
namespace {

constexpr double kLonger = 2;  // than usual, at most
constexpr auto kMeasure = std::chrono::milliseconds(5);
constexpr auto kMostApart = std::chrono::milliseconds(10);  // looks at a rail that is said to be busy
constexpr double kWeight = 0.25;                            // of the newest measurement
constexpr double kGrowth = 1.5;                             // where it ran dry
constexpr double kReturn = 0.02;                            // to what it carries, with each measurement
constexpr double kFragments = 4;                            // that a rail holds
constexpr double kLeast = kFragments * RailWindow::kShort;
constexpr double kMost = 1 << 30;

}  // namespace

RailWindow::Sight RailWindow::look_at(int socket) {
  Sight sight;
  int held = 0;
  if (::ioctl(socket, SIOCOUTQ, &held) == 0) sight.held = static_cast<std::size_t>(held);
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0)
    sight.trip = std::chrono::microseconds(info.tcpi_min_rtt == ~0u ? 0 : info.tcpi_min_rtt);  // not known
  return sight;
}

std::size_t RailWindow::room(const Sight& sight, std::uint64_t written, Time now) {
  if (refused_ && sight.held == 0) most_ = std::min(*most_ * kGrowth, kMost);
  // Held are also the few bytes that encryption adds: what has arrived never becomes less.
  const std::uint64_t arrived = written - std::min<std::uint64_t>(written, sight.held);
  measure(sight, std::max(arrived, arrived_), now);
  if (!most_) return Frame::kMostData;
  refused_ = static_cast<double>(sight.held) > *most_ * (1 - 1 / kFragments);
  return refused_ ? 0 : std::min(static_cast<std::size_t>(*most_ / kFragments), Frame::kMostData);
}

void RailWindow::measure(const Sight& sight, std::uint64_t arrived, Time now) {
  const bool often = now - std::exchange(looked_, now) <= kMostApart;
  if (busy_since_ && often && sight.held > 0) {
    if (now - *busy_since_ < kMeasure) return;
    const auto seconds = [](Duration time) { return std::chrono::duration<double>(time).count(); };
    const double rate = static_cast<double>(arrived - arrived_) / seconds(now - *busy_since_);
    rate_ += (rate_ > 0 ? kWeight : 1) * (rate - rate_);
    const double trips = 2 * seconds(sight.trip);
    const double usual = std::max(rate_ * (hold_ + trips), kLeast);
    const double longest = std::max(rate_ * (kLonger * hold_ + trips), kLeast);
    const double most = std::min(most_.value_or(usual), longest);
    most_ = most > usual ? most + kReturn * (usual - most) : std::max(most, kLeast);
  }
  busy_since_.reset();
  if (sight.held > 0) busy_since_ = now;
  arrived_ = arrived;
}

}  // namespace rueda
