// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/rank_channel.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>

#include "launcher/job/mpich_cleanup.h"

namespace rueda {
namespace {

constexpr const char* kLine = "RUEDA_AGENT_LINE";
constexpr std::size_t kLongestPacket = 4096;

// Whom the kernel names as the sender; 0 when it names nobody.
pid_t sender_of(msghdr& message) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_CREDENTIALS) continue;
    ucred sender{};
    std::memcpy(&sender, CMSG_DATA(part), sizeof sender);
    return sender.pid;
  }
  return 0;
}

}  // namespace

RankChannel::RankChannel() {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) return;
  ours_ = Descriptor(ends[0]);
  Descriptor low(ends[1]);
  const int yes = 1;
  ::setsockopt(ours_.number(), SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes);
  theirs_ = Descriptor(::fcntl(low.number(), F_DUPFD, kLeastInherited));
  ::setenv(kLine, identity_of(theirs_.number()).c_str(), 1);
}

void RankChannel::hear() {
  std::array<char, kLongestPacket> text{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> about{};
  iovec part{text.data(), text.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = about.data();
  message.msg_controllen = about.size();
  const ssize_t count = ::recvmsg(ours_.number(), &message, MSG_CMSG_CLOEXEC);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return ours_.close();  // all who had the other end have closed it
  std::istringstream lines(std::string(text.data(), static_cast<std::size_t>(count)));
  std::string line;
  if (!std::getline(lines, line) || line != "mpi") return;
  mpi_process_ = sender_of(message);
  while (files_.size() < kMostMpichFiles && std::getline(lines, line))
    if (is_mpich_file(line)) files_.insert(line);
}

void RankChannel::tell_lost(int rank, const std::string& words) {
  const std::string packet = fmt::format("lost {} {}", rank, words).substr(0, kLongestPacket);
  if (ours_) ::send(ours_.number(), packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace rueda
