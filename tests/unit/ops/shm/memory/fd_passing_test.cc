// SPDX-License-Identifier: Apache-2.0
// Shared memory of a process that /proc does not show.
#include "ops/shm/memory/fd_passing.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <thread>
#include <utility>
#include <vector>

#include "core/control/messages/control_message.h"
#include "ops/shm/local_peers.h"

namespace rueda {
namespace {

using std::chrono::milliseconds;

std::shared_ptr<SharedFile> make_file() {
  return SharedFile::make("a test", 8192, SharedFile::Pages::all).file;
}

// As anybody can make one who reads the name in /proc/net/unix.
Descriptor connection_to(std::uint64_t nonce) {
  Descriptor connection(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = fmt::format("rueda-{:016x}", nonce);
  std::ranges::copy(name, address.sun_path + 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int failed = connect(connection.number(), reinterpret_cast<const sockaddr*>(&address), size);
  return failed != 0 ? Descriptor() : std::move(connection);
}

TEST(FdPassing, GivesTheDescriptor) {
  const std::shared_ptr<SharedFile> file = make_file();
  FdPassing door(file);
  const FdPassing::Given given = FdPassing::ask(file->handle(), milliseconds(2000), [&] { door.serve(); });
  EXPECT_EQ(given.process_id, getpid());
  ASSERT_GE(given.file, 0);
  EXPECT_NE(given.file, file->handle().file);
  const SharedFile::Result opened = SharedFile::open(file->handle(), given.file, SharedFile::Pages::all);
  ASSERT_TRUE(opened.status.ok()) << opened.status.message;
  file->data()[5000] = std::byte{4};
  EXPECT_EQ(opened.file->data()[5000], std::byte{4});
  EXPECT_NE(opened.file->data(), file->data());
}

TEST(FdPassing, WithoutOneOrWithoutServiceThereIsNone) {
  const std::shared_ptr<SharedFile> file = make_file();
  int asked = 0;
  EXPECT_EQ(FdPassing::ask(file->handle(), milliseconds(50), [&] { ++asked; }).file, -1);
  EXPECT_EQ(asked, 0);
  const FdPassing door(file), second(file);  // the second finds the name taken
  EXPECT_EQ(FdPassing::ask(file->handle(), milliseconds(50), [&] { ++asked; }).file, -1);
  EXPECT_GT(asked, 0);
}

TEST(FdPassing, WithoutTheSecretNobodyIsServed) {
  const std::shared_ptr<SharedFile> file = make_file();
  FdPassing door(file);
  SegmentHandle stranger = file->handle();
  stranger.secret = random_key();
  EXPECT_EQ(FdPassing::ask(stranger, milliseconds(2000), [&] { door.serve(); }).file, -1);
  // Others who say nothing keep nobody out.
  std::vector<Descriptor> silent;
  for (int i = 0; i < 200; ++i) {
    silent.push_back(connection_to(file->handle().nonce));
    ASSERT_GE(silent.back().number(), 0) << i;
    door.serve();
  }
  const Descriptor given(FdPassing::ask(file->handle(), milliseconds(2000), [&] { door.serve(); }).file);
  EXPECT_GE(given.number(), 0);
}

TEST(FdPassing, AnotherDescriptorIsRefused) {
  const std::shared_ptr<SharedFile> file = make_file(), other = make_file();
  const SharedFile::Result opened =
      SharedFile::open(file->handle(), dup(other->handle().file), SharedFile::Pages::all);
  EXPECT_EQ(opened.file, nullptr);
  EXPECT_NE(opened.status.message.find("is not the shared memory that was meant"), std::string::npos);
}

// Each names a process that is not there, as in a container with process numbers of its own.
TEST(FdPassing, LetsNeighboursReachEachOtherAndWatch) {
  std::array<int, 2> down{}, up{};
  ASSERT_EQ(pipe(down.data()), 0);
  ASSERT_EQ(pipe(up.data()), 0);
  auto hidden = [](const LocalPeers& local_peers) {
    SegmentHandle handle = *segment_handle_from(local_peers.peer_info());
    handle.process_id = 0x7ffffff0;
    return to_bytes(handle);
  };
  const pid_t child = fork();
  auto connect_and_touch = [&](Rank rank, int out, int in) {
    LocalPeers own(rank, Segment::make().segment, Window::make(rank, 1 << 20));
    const std::string mine = hidden(own);
    std::string theirs(mine.size(), '\0');
    if (::write(out, mine.data(), mine.size()) < 0 || ::read(in, theirs.data(), theirs.size()) < 0)
      return false;
    Welcome welcome{{}, {"here", "here"}, {1, 2}, {mine, theirs}};
    if (rank == 1) std::swap(welcome.peer_infos[0], welcome.peer_infos[1]);
    own.connect(welcome);
    const Rank peer = 1 - rank;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    const std::array<Rank, 2> both{0, 1};
    if (own.group_of(both) == nullptr || !own.group_of(both)->map_windows()) return false;
    own.contents(peer).flags[2].value.store(77 + static_cast<std::uint64_t>(peer));
    std::vector<Rank> lost;
    while (std::chrono::steady_clock::now() < end && (rank == 0 ? lost.empty() : true)) {
      lost = own.lost(clock_now());  // serves those who still ask
      const bool touched = own.contents(rank).flags[2].value.load() == 77 + static_cast<std::uint64_t>(rank);
      if (rank == 1 && touched) raise(SIGKILL);
      std::this_thread::sleep_for(milliseconds(1));
    }
    return lost == std::vector<Rank>{peer};
  };
  if (child == 0) _exit(connect_and_touch(1, up[1], down[0]) ? 0 : 1);
  EXPECT_TRUE(connect_and_touch(0, down[1], up[0]));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  for (int file : {down[0], down[1], up[0], up[1]}) close(file);
}

}  // namespace
}  // namespace rueda
