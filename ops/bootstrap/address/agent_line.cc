// SPDX-License-Identifier: Apache-2.0
#include "ops/bootstrap/address/agent_line.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/observe/training/timeline_request.h"
#include "core/observe/training/training_record.h"

namespace rueda {
namespace {

constexpr const char* kVariable = "RUEDA_AGENT_LINE";
constexpr std::size_t kLongestPacket = 32 << 10;
constexpr int kTimeoutMs = 20;  // with a value that has not been put yet

// "number:device:file", as in the environment: another descriptor may have got the number since.
bool is_identity_of(int descriptor, std::string_view identity) {
  struct stat about {};
  return ::fstat(descriptor, &about) == 0 &&
         fmt::format("{}:{}:{}", descriptor, about.st_dev, about.st_ino) == identity;
}

// -1: this process has not inherited it.
int inherited_number(const char* variable) {
  const char* identity = std::getenv(variable);
  if (identity == nullptr) return -1;
  const std::string_view text(identity);
  int number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number >= 0 && is_identity_of(number, text) ? number : -1;
}

bool send_with(int socket, std::string_view packet, int descriptor) {
  if (descriptor < 0) return false;
  iovec bytes{const_cast<char*>(packet.data()), packet.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof descriptor)> control{};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

double wall_clock_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

AgentLine& AgentLine::of_this_process() {
  static AgentLine& line = *new AgentLine;  // threads may use it until the process ends
  return line;
}

AgentLine::AgentLine() : socket_(inherited_descriptor(kVariable)) {}

void AgentLine::tell(std::string_view packet) {
  if (socket_) ::send(socket_.number(), packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void AgentLine::tell_joined() {
  tell("join");
  if (!socket_ || has_page_.exchange(true)) return;
  hand_over("training", TrainingRecord::of_process().descriptor());
  hand_over("requests", TimelineRequests::of_process().descriptor());
}

void AgentLine::show_recorder(int descriptor, std::size_t offset, const std::string& identity) {
  if (socket_) hand_over(fmt::format("recorder {} {}", offset, identity), descriptor);
}

void AgentLine::hand_over(std::string_view packet, int descriptor) {
  send_with(socket_.number(), packet, descriptor);
}

void AgentLine::put(const std::string& key, const std::string& value) {
  tell(fmt::format("put {} {}", key, value));
}

std::optional<std::string> AgentLine::get(const std::string& key, int milliseconds) {
  std::uint64_t before = 0;
  {
    const std::lock_guard lock(mutex_);
    catch_up();
    values_.erase(key);  // a newer one may have been put
    before = packets_;
  }
  tell("get " + key);
  const auto take = [&]() -> std::optional<std::string> {
    const std::lock_guard lock(mutex_);
    catch_up();
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  };
  std::optional<std::string> value = take();
  if (value || !socket_) return value;
  wait(before, milliseconds);
  return take();
}

// Only the listening thread receives packets, if there is one. Any other receiver would have to wake it.
void AgentLine::catch_up() {
  if (!has_listener_) hear();
}

// The agent may have gone: then nothing comes any more, and others see to the end of this process.
bool AgentLine::hear() {
  std::array<char, kLongestPacket> packet{};
  while (socket_) {
    const ssize_t count = ::recv(socket_.number(), packet.data(), packet.size(), MSG_DONTWAIT);
    if (count <= 0) return count < 0 && (errno == EAGAIN || errno == EINTR);
    hear(std::string_view(packet.data(), static_cast<std::size_t>(count)));
  }
  return false;
}

void AgentLine::begin_to_listen() {
  const std::lock_guard lock(mutex_);
  has_listener_ = true;
}

bool AgentLine::wait_for_packet() {
  pollfd wait{socket_.number(), POLLIN, 0};
  ::poll(&wait, 1, -1);
  const std::lock_guard lock(mutex_);
  return hear();
}

void AgentLine::hear(std::string_view text) {
  constexpr std::string_view kGeneration = "generation ", kChange = "change ";
  ++packets_;
  heard_.notify_all();
  LostPeer peer;
  if (read_lost(text, peer)) {
    lost_.push_back(std::move(peer));
  } else if (text.starts_with("value ")) {
    text.remove_prefix(6);
    const std::size_t end = std::min(text.find(' '), text.size() - 1);
    values_[std::string(text.substr(0, end))] = text.substr(end + 1);
  } else if (text.starts_with(kGeneration) && text.ends_with('.')) {
    text.remove_suffix(1);
    const std::optional<Generation> generation = generation_from(text.substr(kGeneration.size()));
    const bool is_newer =
        generation && (!membership_.newest || generation->number > membership_.newest->number);
    if (is_newer)
      membership_ = {.newest = generation, .retires = membership_.retires, .since = wall_clock_seconds()};
  } else if (text.starts_with(kChange) && text.size() == kChange.size() + 2) {
    membership_.joiners_wait = text[kChange.size()] == '1';
    membership_.leavers_wait = text[kChange.size() + 1] == '1';
    membership_.since = wall_clock_seconds();
  } else if (text == "retire") {
    membership_.retires = true;
  }
}

AgentLine::Membership AgentLine::membership() {
  const std::lock_guard lock(mutex_);
  catch_up();
  return membership_;
}

std::uint64_t AgentLine::packets() {
  const std::lock_guard lock(mutex_);
  return packets_;
}

void AgentLine::wait(std::uint64_t packets, int milliseconds) {
  std::unique_lock lock(mutex_);
  const auto more = [&] { return packets_ != packets; };
  if (has_listener_) {
    heard_.wait_for(lock, std::chrono::milliseconds(milliseconds), more);
    return;
  }
  if (more()) return;
  lock.unlock();
  pollfd wait{socket_.number(), POLLIN, 0};
  ::poll(&wait, 1, milliseconds);
}

std::vector<LostPeer> AgentLine::lost(std::size_t& seen) {
  const std::lock_guard lock(mutex_);
  catch_up();
  std::vector<LostPeer> fresh(lost_.begin() + static_cast<std::ptrdiff_t>(seen), lost_.end());
  seen = lost_.size();
  return fresh;
}

// The agent's words begin with "rank 2 (process 17 on node3) ".
std::string AgentLine::how_it_ended(Rank rank) {
  const std::lock_guard lock(mutex_);
  catch_up();
  const auto found = std::ranges::find(lost_, rank, &LostPeer::rank);
  if (found == lost_.end()) return "";
  const std::size_t end_of_identity = found->words.find(") ");
  return end_of_identity == std::string::npos ? found->words : found->words.substr(end_of_identity + 2);
}

void AgentStore::set(const std::string& key, const std::string& value) {
  AgentLine::of_this_process().put(key, value);
}

std::optional<std::string> AgentStore::get(const std::string& key) {
  return AgentLine::of_this_process().get(key, kTimeoutMs);
}

void AgentStore::remove(const std::string& key) { AgentLine::of_this_process().put(key, ""); }

Descriptor inherited_descriptor(const char* variable) {
  const int number = inherited_number(variable);
  if (number < 0) return {};
  ::fcntl(number, F_SETFD, FD_CLOEXEC);
  return Descriptor(number);
}

bool tell_stacks(int signal, int file) {
  const int line = inherited_number(kVariable);
  return line >= 0 && send_with(line, fmt::format("stacks {} {}", signal, file), file);
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
