// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/link_stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <vector>

namespace rueda {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr std::size_t kChunk = 64 << 10;
constexpr std::uint64_t kMostBytes = 256 << 20;
constexpr auto kSlack = 2s;      // for the last bytes of a slow connection
constexpr int kNotMeasured = 4;  // the first quarter of the time

bool wait_for(const Descriptor& socket, short what, LinkTime until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  pollfd wait{socket.number(), what, 0};
  return left > 0 && ::poll(&wait, 1, static_cast<int>(left)) == 1;
}

// Moves all bytes by `move`, which is send() or recv().
template <class Move>
bool move_all(const Descriptor& socket, std::size_t size, short what, LinkTime until, Move move) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t count = move(done, size - done);
    if (count > 0) {
      done += static_cast<std::size_t>(count);
    } else if (count == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
      return false;
    } else if (errno != EINTR && !wait_for(socket, what, until)) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool send_all(const Descriptor& socket, std::span<const std::byte> bytes, LinkTime until) {
  return move_all(socket, bytes.size(), POLLOUT, until, [&](std::size_t done, std::size_t left) {
    return ::send(socket.number(), bytes.data() + done, left, MSG_NOSIGNAL | MSG_DONTWAIT);
  });
}

bool receive_all(const Descriptor& socket, std::span<std::byte> bytes, LinkTime until) {
  return move_all(socket, bytes.size(), POLLIN, until, [&](std::size_t done, std::size_t left) {
    return ::recv(socket.number(), bytes.data() + done, left, MSG_DONTWAIT);
  });
}

// Chunks, the first byte of each is 1; behind them a byte 0.
bool send_for(const Descriptor& socket, std::chrono::milliseconds time) {
  const auto begin = Clock::now();
  std::vector<std::byte> chunk(kChunk);
  chunk.front() = std::byte{1};
  for (std::uint64_t sent = 0; sent < kMostBytes && Clock::now() < begin + time; sent += kChunk)
    if (!send_all(socket, chunk, begin + time + kSlack)) return false;
  const std::array end{std::byte{0}};
  return send_all(socket, end, begin + time + kSlack);
}

std::optional<std::uint64_t> receive_for(const Descriptor& socket, std::chrono::milliseconds time) {
  const auto begin = Clock::now();
  const auto until = begin + time + kSlack;  // as long as the sender
  std::vector<std::byte> chunk(kChunk);
  LinkTime from = begin, last = begin;
  std::uint64_t all = 0, before = 0;
  for (;;) {
    if (!receive_all(socket, std::span(chunk).first(1), until)) return std::nullopt;
    if (chunk.front() == std::byte{0}) break;
    if (!receive_all(socket, std::span(chunk).subspan(1), until)) return std::nullopt;
    last = Clock::now();
    all += kChunk;
    if (before == 0 && last >= begin + time / kNotMeasured) from = last, before = all;
  }
  if (all == before) from = begin, before = 0;  // nothing came later
  const std::chrono::duration<double> seconds = last - from;
  if (all == 0 || seconds.count() <= 0) return std::nullopt;
  return static_cast<std::uint64_t>(static_cast<double>(all - before) / seconds.count());
}

void prepare_for_measurement(const Descriptor& socket) {
  const auto set = [&](int option, int value) {
    ::setsockopt(socket.number(), IPPROTO_TCP, option, &value, sizeof value);
  };
  set(TCP_NODELAY, 1);
  set(TCP_NOTSENT_LOWAT, 128 << 10);
}

}  // namespace rueda
