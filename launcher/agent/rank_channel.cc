// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/rank_channel.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/base/number.h"
#include "launcher/protocol/agent_message.h"

namespace rueda {
namespace {

constexpr std::size_t kLongestPacket = 32 << 10;  // as ops/bootstrap/address/agent_line has it
constexpr int kAtOnce = 64;
constexpr std::string_view kStacks = "stacks ";
constexpr std::size_t kMostPythons = 8;
constexpr std::string_view kRecorder = "recorder ";

struct Packet {
  std::string text;
  pid_t sender = 0;  // whom the kernel names; 0 when it names nobody
  Descriptor file;   // the first one that came with it
};

void take_descriptors(const cmsghdr& part, Packet& packet) {
  const std::size_t count = (part.cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (std::size_t i = 0; i < count; ++i) {
    int number = -1;
    std::memcpy(&number, CMSG_DATA(&part) + i * sizeof number, sizeof number);
    Descriptor file(number);
    if (!packet.file) packet.file = std::move(file);
  }
}

void read_ancillary(msghdr& message, Packet& packet) {
  packet.sender = 0;
  packet.file.close();
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET) continue;
    if (part->cmsg_type == SCM_RIGHTS) take_descriptors(*part, packet);
    if (part->cmsg_type != SCM_CREDENTIALS) continue;
    ucred sender{};
    std::memcpy(&sender, CMSG_DATA(part), sizeof sender);
    packet.sender = sender.pid;
  }
}

enum class Came { packet, nothing, end };

Came receive_packet(int socket, Packet& packet) {
  std::array<char, kLongestPacket> text{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(sizeof(int))> about{};
  iovec part{text.data(), text.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = about.data();
  message.msg_controllen = about.size();
  const ssize_t count = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return Came::nothing;
  if (count < 0) return Came::end;
  if (count == 0) {  // the end, or an empty packet that may bring descriptors
    read_ancillary(message, packet);
    return Came::end;
  }
  packet.text.assign(text.data(), static_cast<std::size_t>(count));
  read_ancillary(message, packet);
  return Came::packet;
}

using Kind = RankChannel::Request::Kind;

// "fresh", "ready GENERATION", "formed GENERATION" or "state".
std::optional<agents::WorkerState> state_from(std::string_view text) {
  using State = agents::WorkerState::Kind;
  if (text == "fresh") return agents::WorkerState{.kind = State::fresh};
  if (text == "state") return agents::WorkerState{.kind = State::has_state};
  const bool formed = text.starts_with("formed ");
  if (!formed && !text.starts_with("ready ")) return std::nullopt;
  agents::WorkerState state{.kind = formed ? State::formed : State::ready};
  text.remove_prefix(text.find(' ') + 1);
  const std::optional<std::uint64_t> generation = number_from<std::uint64_t>(text);
  if (!generation) return std::nullopt;
  state.generation = *generation;
  return state;
}

// "recorder OFFSET IDENTITY".
std::optional<RankChannel::Request> recorder_from(std::string_view text, Descriptor file) {
  text.remove_prefix(kRecorder.size());
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::optional<std::uint64_t> offset = number_from<std::uint64_t>(text.substr(0, end));
  if (!offset || end == text.size()) return std::nullopt;
  return RankChannel::Request{.kind = Kind::recorder,
                              .value = std::string(text.substr(end + 1)),
                              .file = std::move(file),
                              .offset = *offset};
}

// One of these, "stalled", "put KEY VALUE" or "get KEY".
std::optional<RankChannel::Request> request_from(std::string_view text) {
  if (text == "stalled") return RankChannel::Request{.kind = Kind::stalled};
  if (const std::optional<agents::WorkerState> state = state_from(text))
    return RankChannel::Request{.kind = Kind::state, .state = *state};
  const bool put = text.starts_with("put ");
  if (!put && !text.starts_with("get ")) return std::nullopt;
  text.remove_prefix(4);
  const std::size_t end = std::min(text.find(' '), text.size());
  RankChannel::Request request{.kind = put ? Kind::put : Kind::get, .key = std::string(text.substr(0, end))};
  if (put && end < text.size()) request.value = text.substr(end + 1);
  const bool fits = !request.key.empty() && request.key.size() <= agents::kLongestKey &&
                    request.value.size() <= agents::kLongestValue;
  return fits ? std::optional(std::move(request)) : std::nullopt;
}

}  // namespace

RankChannel::RankChannel() {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot make a pair of sockets");
  ours_ = Descriptor(ends[0]);
  const Descriptor low(ends[1]);
  const int yes = 1;
  ::setsockopt(ours_.number(), SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes);
  theirs_ = high_copy_of(low);
  if (!theirs_) throw std::system_error(errno, std::generic_category(), "cannot copy a socket");
}

std::vector<RankChannel::Request> RankChannel::hear() {
  std::vector<Request> requests;
  Packet packet;
  for (int i = 0; i < kAtOnce && ours_; ++i) {
    const Came came = receive_packet(ours_.number(), packet);
    if (came == Came::nothing) break;
    if (came == Came::end) {  // all who had the other end have closed it
      ours_.close();
      break;
    }
    if (packet.text == "join" || packet.text == "mpi") {
      member_ = packet.sender;
      member_handle_ = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, packet.sender, 0)));
    }
    if (packet.text == "mpi") uses_mpi_ = true;
    if (packet.file && (packet.text == "training" || packet.text == "requests")) {
      const Kind kind = packet.text == "training" ? Kind::training : Kind::timelines;
      requests.push_back({.kind = kind, .file = std::move(packet.file)});
      continue;
    }
    if (packet.text.starts_with(kStacks) && packet.file)
      take_python(packet.sender, std::string_view(packet.text).substr(kStacks.size()),
                  std::move(packet.file));
    if (packet.file && packet.text.starts_with(kRecorder)) {
      if (auto request = recorder_from(packet.text, std::move(packet.file)))
        requests.push_back(std::move(*request));
      continue;
    }
    if (std::optional<Request> request = request_from(packet.text)) requests.push_back(std::move(*request));
  }
  return requests;
}

// A helper process of the rank may tell of itself, too.
void RankChannel::take_python(pid_t process, std::string_view words, Descriptor file) {
  const std::size_t blank = std::min(words.find(' '), words.size());
  const auto signal = number_from<int>(words.substr(0, blank));
  const auto number = number_from<int>(words.substr(std::min(blank + 1, words.size())));
  auto python = PythonStacks::of(process, signal.value_or(0), std::move(file), number.value_or(-1));
  if (!python) return;
  std::erase_if(pythons_, [&](const auto& each) { return each->process() == process || !each->is_alive(); });
  if (pythons_.size() == kMostPythons) pythons_.erase(pythons_.begin());
  pythons_.push_back(std::move(python));
}

pid_t RankChannel::main_process() const {
  if (const pid_t joined = member(); joined != 0) return joined;
  const auto alive =
      std::find_if(pythons_.rbegin(), pythons_.rend(), [](const auto& each) { return each->is_alive(); });
  return alive == pythons_.rend() ? 0 : (*alive)->process();
}

std::shared_ptr<PythonStacks> RankChannel::python_of(pid_t process) const {
  const auto found = std::ranges::find(pythons_, process, &PythonStacks::process);
  return found == pythons_.end() ? nullptr : *found;
}

pid_t RankChannel::member() const { return signal_member(0) ? member_ : 0; }

bool RankChannel::signal_member(int signal) const {
  return member_handle_ && ::syscall(SYS_pidfd_send_signal, member_handle_.number(), signal, nullptr, 0) == 0;
}

void RankChannel::tell_lost(int rank, const std::string& words) {
  tell(fmt::format("lost {} {}", rank, words));
}

void RankChannel::tell_value(const std::string& key, const std::string& value) {
  tell(fmt::format("value {} {}", key, value));
}

// A packet may not have had room, and whoever is not in a generation looks for the reason.
void RankChannel::tell_generation(const Generation& generation) {
  if (retires_) tell("retire");
  tell(fmt::format("generation {}.", to_text(generation)));
}

void RankChannel::tell_change(const agents::ChangeDue& due) {
  tell(fmt::format("change {:d}{:d}", due.joiners, due.leavers));
}

void RankChannel::tell_to_retire() {
  retires_ = true;
  tell("retire");
}

void RankChannel::tell(std::string packet) {
  packet.resize(std::min(packet.size(), kLongestPacket));
  if (ours_) ::send(ours_.number(), packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace rueda
