// SPDX-License-Identifier: Apache-2.0
#include "ops/mpi/agent_line.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string_view>

namespace rueda {
namespace {

constexpr std::size_t kLongestPacket = 4096;

// "number:device:file", as in the environment: another descriptor may have got the number since.
bool is_identity_of(int descriptor, std::string_view identity) {
  struct stat about {};
  return ::fstat(descriptor, &about) == 0 &&
         fmt::format("{}:{}:{}", descriptor, about.st_dev, about.st_ino) == identity;
}

}  // namespace

AgentLine::AgentLine() {
  const char* identity = std::getenv("RUEDA_AGENT_LINE");
  if (identity == nullptr) return;
  const std::string_view text(identity);
  int descriptor = -1;
  std::from_chars(text.data(), text.data() + text.size(), descriptor);
  if (descriptor < 0 || !is_identity_of(descriptor, text)) return;
  socket_ = descriptor;
  ::fcntl(socket_, F_SETFD, FD_CLOEXEC);
}

AgentLine::~AgentLine() {
  if (socket_ >= 0) ::close(socket_);
}

void AgentLine::tell_shared_memory() const {
  std::set<std::string> files;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t path = line.find("/dev/shm/mpich_shm_");
    if (path != std::string::npos) files.insert(line.substr(path));
  }
  std::string packet = "mpi\n";
  for (const std::string& file : files)
    if (packet.size() + file.size() < kLongestPacket) packet += file + "\n";
  if (socket_ >= 0) ::send(socket_, packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void AgentLine::hear() {
  std::array<char, kLongestPacket> packet{};
  for (ssize_t count; socket_ >= 0;) {
    count = ::recv(socket_, packet.data(), packet.size(), MSG_DONTWAIT);
    if (count <= 0) break;
    LostPeer peer;
    if (read_lost({packet.data(), static_cast<std::size_t>(count)}, peer)) heard_.push_back(std::move(peer));
  }
}

std::vector<LostPeer> AgentLine::lost() {
  hear();
  std::vector<LostPeer> fresh(heard_.begin() + static_cast<std::ptrdiff_t>(told_), heard_.end());
  told_ = heard_.size();
  return fresh;
}

std::string AgentLine::words_of(Rank rank) {
  hear();
  const auto found = std::ranges::find(heard_, rank, &LostPeer::rank);
  return found == heard_.end() ? std::string() : found->words;
}

bool read_lost(std::string_view packet, LostPeer& lost) {
  constexpr std::string_view kStart = "lost ";
  if (!packet.starts_with(kStart)) return false;
  packet.remove_prefix(kStart.size());
  auto [end, error] = std::from_chars(packet.data(), packet.data() + packet.size(), lost.rank);
  if (error != std::errc() || lost.rank < 0 || end == packet.data() + packet.size() || *end != ' ')
    return false;
  lost.words = packet.substr(static_cast<std::size_t>(end + 1 - packet.data()));
  return true;
}

}  // namespace rueda
