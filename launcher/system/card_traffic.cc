// SPDX-License-Identifier: Apache-2.0
#include "launcher/system/card_traffic.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "launcher/system/descriptor.h"

namespace rueda {
namespace {

constexpr std::uint32_t kEstablished = 1U << 1;
constexpr double kMemory = 2.0;  // seconds of sending that count
constexpr double kMicrosecond = 1e-6;
constexpr double kMuch = 0.25;                 // of the bytes of the connection that carries most
constexpr std::int64_t kIdle = 3'000'000'000;  // nanoseconds

std::string text_of(int family, const void* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  return ::inet_ntop(family, address, text.data(), text.size()) == nullptr ? "" : text.data();
}

bool is_loopback(int family, const void* address) {
  if (family == AF_INET) return *static_cast<const unsigned char*>(address) == 127;
  const auto* v6 = static_cast<const in6_addr*>(address);
  return IN6_IS_ADDR_LOOPBACK(v6) != 0;
}

bool ask_for(const Descriptor& socket, int family) {
  struct {
    nlmsghdr head;
    inet_diag_req_v2 body;
  } request{};
  request.head.nlmsg_len = sizeof request;
  request.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.body.sdiag_family = static_cast<std::uint8_t>(family);
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_ext = 1U << (INET_DIAG_INFO - 1);
  request.body.idiag_states = kEstablished;
  return ::send(socket.number(), &request, sizeof request, 0) == static_cast<ssize_t>(sizeof request);
}

// Of one message. Nothing where it is no connection with another machine, or an old kernel counts less.
std::optional<ConnectionCount> connection_in(const char* data, std::size_t size) {
  inet_diag_msg message{};
  if (size < sizeof message) return std::nullopt;
  std::memcpy(&message, data, sizeof message);
  const int family = message.idiag_family;
  if (is_loopback(family, message.id.idiag_dst)) return std::nullopt;
  ConnectionCount count;
  std::memcpy(&count.cookie, message.id.idiag_cookie, sizeof count.cookie);
  count.local = text_of(family, message.id.idiag_src);
  for (std::size_t at = NLMSG_ALIGN(sizeof message); at + sizeof(nlattr) <= size;) {
    nlattr attribute{};
    std::memcpy(&attribute, data + at, sizeof attribute);
    if (attribute.nla_len < sizeof attribute || at + attribute.nla_len > size) break;
    const std::size_t length = attribute.nla_len - sizeof attribute;
    if (attribute.nla_type == INET_DIAG_INFO && length >= offsetof(tcp_info, tcpi_sndbuf_limited)) {
      tcp_info info{};
      std::memcpy(&info, data + at + sizeof attribute, std::min(length, sizeof info));
      count.acknowledged_bytes = info.tcpi_bytes_acked;
      count.sending_us = info.tcpi_busy_time - std::min(info.tcpi_rwnd_limited, info.tcpi_busy_time);
      return count;
    }
    at += NLA_ALIGN(attribute.nla_len);
  }
  return std::nullopt;
}

// False at the end of the answer.
bool take(const char* data, std::size_t size, std::vector<ConnectionCount>& connections) {
  while (size >= sizeof(nlmsghdr)) {
    nlmsghdr head{};
    std::memcpy(&head, data, sizeof head);
    if (head.nlmsg_len < sizeof head || head.nlmsg_len > size) return false;
    if (head.nlmsg_type == NLMSG_DONE || head.nlmsg_type == NLMSG_ERROR) return false;
    if (auto count = connection_in(data + NLMSG_HDRLEN, head.nlmsg_len - NLMSG_HDRLEN))
      connections.push_back(std::move(*count));
    const std::size_t step = std::min<std::size_t>(NLMSG_ALIGN(head.nlmsg_len), size);
    data += step;
    size -= step;
  }
  return true;
}

}  // namespace

std::vector<ConnectionCount> tcp_connections() {
  std::vector<ConnectionCount> connections;
  const Descriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  const timeval longest{.tv_sec = 0, .tv_usec = 100'000};
  if (socket) ::setsockopt(socket.number(), SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
  std::array<char, 32 << 10> buffer{};
  for (const int family : {AF_INET, AF_INET6}) {
    if (!socket || !ask_for(socket, family)) break;
    for (ssize_t count; (count = ::recv(socket.number(), buffer.data(), buffer.size(), 0)) > 0;)
      if (!take(buffer.data(), static_cast<std::size_t>(count), connections)) break;
  }
  return connections;
}

std::map<std::string, std::string> cards_by_address() {
  std::map<std::string, std::string> cards;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return cards;
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_LOOPBACK) != 0) continue;
    const int family = each->ifa_addr->sa_family;
    if (family == AF_INET)
      cards[text_of(family, &reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr)] =
          each->ifa_name;
    if (family == AF_INET6)
      cards[text_of(family, &reinterpret_cast<const sockaddr_in6*>(each->ifa_addr)->sin6_addr)] =
          each->ifa_name;
  }
  ::freeifaddrs(first);
  return cards;
}

// A connection that carries little does not count: it may wait for something else than the card. Others send
// at the same time more often than not, so the longest time counts.
std::map<std::string, CardTraffic::Speed> CardTraffic::speeds(const std::vector<ConnectionCount>& connections,
                                                              const std::map<std::string, std::string>& cards,
                                                              std::int64_t now_ns) {
  struct Sent {
    double bytes = 0, seconds = 0;
  };
  std::map<std::string, std::vector<Sent>> news;
  std::map<std::uint64_t, ConnectionCount> now;
  for (const ConnectionCount& each : connections) {
    now[each.cookie] = each;
    const auto before = before_.find(each.cookie);
    const auto card = cards.find(each.local);
    if (before == before_.end() || card == cards.end()) continue;
    const ConnectionCount& old = before->second;
    if (each.sending_us <= old.sending_us || each.acknowledged_bytes <= old.acknowledged_bytes) continue;
    news[card->second].push_back({static_cast<double>(each.acknowledged_bytes - old.acknowledged_bytes),
                                  static_cast<double>(each.sending_us - old.sending_us) * kMicrosecond});
  }
  before_ = std::move(now);
  for (const auto& [card, all] : news) {
    const double most = std::ranges::max(all, {}, &Sent::bytes).bytes;
    Sent sum;
    for (const Sent& each : all) {
      if (each.bytes < kMuch * most) continue;
      sum.bytes += each.bytes;
      sum.seconds = std::max(sum.seconds, each.seconds);
    }
    Speed& speed = speeds_[card];
    const double kept = std::min(speed.sending_seconds, std::max(0.0, kMemory - sum.seconds));
    const double seconds = kept + sum.seconds;
    speed = {(speed.bytes_per_second * kept + sum.bytes) / seconds, seconds};
    moved_ns_[card] = now_ns;
  }
  std::erase_if(speeds_, [&](const auto& each) { return now_ns > moved_ns_[each.first] + kIdle; });
  return speeds_;
}

}  // namespace rueda
