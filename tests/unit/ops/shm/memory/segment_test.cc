// SPDX-License-Identifier: Apache-2.0
// Segments between processes and within one; cards; how much memory there is.
#include "ops/shm/memory/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "ops/shm/memory/free_memory.h"
#include "ops/shm/memory/host_lock.h"
#include "tests/support/in_child.h"
#include "tests/support/scratch_folder.h"

namespace rueda {
namespace {

std::shared_ptr<Segment> make() {
  Segment::Result made = Segment::make();
  EXPECT_TRUE(made.status.ok()) << made.status.message;
  return made.segment;
}

std::string words_of(const SegmentHandle& handle) {
  const Segment::Result opened = Segment::open(handle);
  EXPECT_EQ(opened.segment, nullptr);
  return opened.status.message;
}

// Bytes; the first number of the file counts pages.
std::size_t address_space_in_use() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

TEST(Segment, OneProcessHasOneMapping) {
  const std::shared_ptr<Segment> segment = make();
  EXPECT_EQ(&Segment::open(segment->handle()).segment->contents(), &segment->contents());
  EXPECT_NE(make()->handle().nonce, segment->handle().nonce);
}

TEST(Segment, AnotherProcessMapsIt) {
  SegmentHandle handle;
  std::atomic<std::uint64_t>* seen = nullptr;
  const std::shared_ptr<Segment> back = make();
  seen = &back->contents().flags[0].value;
  int ready[2], over[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(over, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {  // has a segment of its own that the parent opens
    const std::shared_ptr<Segment> own = Segment::make().segment;
    own->contents().flags[3].value.store(42);
    const SegmentHandle made = own->handle();
    char byte = 0;
    const bool told = ::write(ready[1], &made, sizeof made) == sizeof made && read(over[0], &byte, 1) == 1;
    const std::shared_ptr<Segment> shared = Segment::open(back->handle()).segment;
    shared->contents().flags[0].value.store(own->contents().slots[1][5] == std::byte{7} ? 1 : 2);
    seen->store(3);  // what it inherited is its own
    _exit(told ? 0 : 1);
  }
  ASSERT_EQ(read(ready[0], &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
  Segment::Result opened = Segment::open(handle);
  ASSERT_TRUE(opened.status.ok()) << opened.status.message;
  EXPECT_EQ(opened.segment->contents().flags[3].value.load(), 42u);
  opened.segment->contents().slots[1][5] = std::byte{7};
  ASSERT_EQ(::write(over[1], "x", 1), 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(seen->load(), 1u);
  // The mapping outlives its maker; nobody new can come.
  EXPECT_EQ(opened.segment->contents().flags[3].value.load(), 42u);
  opened.segment.reset();
  EXPECT_NE(words_of(handle).find("looking at /proc/"), std::string::npos);
  for (int file : {ready[0], ready[1], over[0], over[1]}) close(file);
}

TEST(Segment, IsClosedOnExecAndCannotShrink) {
  const std::shared_ptr<Segment> segment = make();
  EXPECT_NE(fcntl(segment->handle().file, F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(ftruncate(segment->handle().file, 0), 0);
}

TEST(Segment, OnlyTheOneThatWasMeantIsOpened) {
  const std::shared_ptr<Segment> segment = make();
  const SegmentHandle handle = segment->handle();
  const SegmentHandle other_nonce{handle.process_id, handle.file, handle.nonce + 1, handle.size};
  EXPECT_NE(words_of(other_nonce).find("is not the shared memory that was meant"), std::string::npos);
  const SegmentHandle other_size{handle.process_id, handle.file, handle.nonce + 1, handle.size + 4096};
  EXPECT_NE(words_of(other_size).find("is not the shared memory that was meant"), std::string::npos);
  const std::shared_ptr<SharedFile> small = SharedFile::make("a test", 4096, SharedFile::Pages::all).file;
  EXPECT_NE(words_of(small->handle()).find("Are all ranks of one build?"), std::string::npos);
  const SegmentHandle input{handle.process_id, 0, handle.nonce + 1, handle.size};
  EXPECT_NE(words_of(input).find("is not the shared memory that was meant"), std::string::npos);
  const SegmentHandle nobody{0x7fffffff, 3, handle.nonce + 1, handle.size};
  EXPECT_NE(words_of(nobody).find("looking at /proc/2147483647/fd/3"), std::string::npos);
  const int open_to_shrink = memfd_create("rueda-0000000000000001", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(open_to_shrink, static_cast<off_t>(handle.size)), 0);
  const SegmentHandle unsealed{handle.process_id, open_to_shrink, 1, handle.size};
  EXPECT_NE(words_of(unsealed).find("could still shrink"), std::string::npos);
  close(open_to_shrink);
}

TEST(Segment, TooManyFilesAreAnErrorInWords) {
  EXPECT_TRUE(in_child([] {
    Segment::make();    // UBSan opens a pipe when it sees a type for the first time
    rlimit none{0, 0};  // 0: also where the process began without a stderr
    setrlimit(RLIMIT_NOFILE, &none);
    const Segment::Result made = Segment::make();
    return made.segment == nullptr && made.status.message.find("Too many open files") != std::string::npos;
  }));
}

TEST(Segment, TooManyFilesHaveTheRemedyForFiles) {
  const std::shared_ptr<Segment> segment = make();
  EXPECT_TRUE(in_child([&] {
    rlimit none{0, 0};
    setrlimit(RLIMIT_NOFILE, &none);
    const std::string words = words_of(segment->handle());  // of another process
    return words.find("ulimit -n") != std::string::npos && words.find("ulimit -v") == std::string::npos;
  }));
}

TEST(Segment, TooLittleAddressSpaceHasTheRemedyForThat) {
  const std::shared_ptr<SharedFile> file =
      SharedFile::make("a test", std::size_t{1} << 36, SharedFile::Pages::by_demand).file;
  ASSERT_NE(file, nullptr);
  EXPECT_TRUE(in_child([&] {
    // There is room for anything but the file: a sanitizer maps memory of its own at any time.
    const std::size_t room = address_space_in_use() + (std::size_t{1} << 35);
    rlimit some{room, room};
    setrlimit(RLIMIT_AS, &some);
    const std::string words = SharedFile::open(file->handle(), SharedFile::Pages::by_demand).status.message;
    return words.find("ulimit -v") != std::string::npos && words.find("ulimit -n") == std::string::npos;
  }));
}

// As when several ranks of a host lay out their windows at the same time: what one sees free, another could
// take meanwhile.
TEST(HostLock, MemoryIsTakenByOneAtATime) {
  std::atomic<bool> taken{false};
  std::thread other;
  {
    const HostLock lock;
    ASSERT_TRUE(lock.held());
    other = std::thread([&] {
      EXPECT_TRUE(SharedFile::make("a test", 8192, SharedFile::Pages::all).status.ok());
      taken.store(true);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_FALSE(taken.load());
  }
  other.join();
  EXPECT_TRUE(taken.load());
}

// Purpose: a control group with a limit of memory, where this process may make one.
class MemoryGroup {
 public:
  explicit MemoryGroup(std::size_t bytes) {
    std::error_code failure;
    if (!std::filesystem::create_directory(path_, failure)) return;
    std::ofstream(path_ / "memory.limit_in_bytes") << bytes << std::flush;
    std::size_t limit = 0;
    std::ifstream(path_ / "memory.limit_in_bytes") >> limit;
    works_ = limit == bytes;
  }
  ~MemoryGroup() { rmdir(path_.c_str()); }
  bool works() const { return works_; }
  bool join() const {
    std::ofstream members(path_ / "cgroup.procs");
    members << getpid() << std::flush;
    return members.good();
  }

 private:
  const std::filesystem::path path_ = "/sys/fs/cgroup/memory/rueda_test_" + std::to_string(getpid());
  bool works_ = false;
};

TEST(HostLock, RanksThatTakeMemoryAtOnceAreToldAndNotKilled) {
  const MemoryGroup group(std::size_t{320} << 20);
  if (!group.works()) GTEST_SKIP() << "this process cannot limit the memory of a control group";
  int begin[2], tried[2], over[2];
  ASSERT_EQ(pipe2(begin, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(tried, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(over, O_CLOEXEC), 0);
  std::array<pid_t, 4> ranks{};
  for (pid_t& rank : ranks) {
    rank = fork();
    if (rank != 0) continue;
    close(begin[1]);
    close(over[1]);
    char byte = 0;
    if (!group.join() || read(begin[0], &byte, 1) != 0) _exit(9);  // returns when the parent closes it
    const auto made = SharedFile::make("a test", std::size_t{200} << 20, SharedFile::Pages::all);
    const bool told = made.status.message.find("KiB are free") != std::string::npos;
    if (::write(tried[1], "x", 1) != 1 || read(over[0], &byte, 1) != 0) _exit(9);  // when all have tried
    _exit(made.status.ok() ? 0 : told ? 1 : 2);
  }
  for (const int file : {begin[0], begin[1], tried[1], over[0]}) close(file);
  char byte = 0;
  pollfd look{tried[0], POLLIN, 0};  // one that is killed says nothing
  for (std::size_t rank = 0; rank < ranks.size() && poll(&look, 1, 60'000) == 1; ++rank)
    EXPECT_EQ(read(tried[0], &byte, 1), 1);
  for (const int file : {tried[0], over[1]}) close(file);
  int good = 0;
  for (const pid_t rank : ranks) {
    int status = 0;
    ASSERT_EQ(waitpid(rank, &status, 0), rank);
    ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
    EXPECT_LE(WEXITSTATUS(status), 1);
    good += WEXITSTATUS(status) == 0 ? 1 : 0;
  }
  EXPECT_EQ(good, 1) << "the memory of one is there";
}

TEST(HostLock, EndsWithItsProcess) {
  const ScratchFolder folder;
  EXPECT_TRUE(in_child([&] { return HostLock(folder.path().c_str()).held(); }));
  EXPECT_TRUE(HostLock(folder.path().c_str()).held());
  pid_t child = -1;
  {
    const HostLock lock(folder.path().c_str());
    child = fork();
    if (child == 0) {
      pause();  // has the folder open
      _exit(0);
    }
  }
  EXPECT_EQ(in_child([&] {
              return flock(Descriptor(::open(folder.path().c_str(), O_RDONLY)).number(), LOCK_EX | LOCK_NB) ==
                     0;
            }),
            true)
      << "a forked child does not keep it";
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(HostLock("/nowhere").held());
}

TEST(Segment, TooLittleRoomIsAnErrorInWordsAndNoSignal) {
  EXPECT_TRUE(in_child([] {
    rlimit some{1 << 16, 1 << 16};
    setrlimit(RLIMIT_FSIZE, &some);
    const Segment::Result made = Segment::make();
    const std::string& words = made.status.message;
    return made.segment == nullptr && words.find("Too little memory for a segment of") == 0 &&
           words.find("ulimit -f") != std::string::npos && words.find("set RUEDA_SHM=0") != std::string::npos;
  }));
}

TEST(SegmentHandle, SurvivesTheWayAndDamageIsAnError) {
  const SegmentHandle handle{4711, 12, 0x0123456789abcdef, 1 << 20, random_key()};
  const std::string bytes = to_bytes(handle);
  EXPECT_EQ(segment_handle_from(bytes), handle);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(segment_handle_from(bytes.substr(0, length)));
  EXPECT_FALSE(segment_handle_from(bytes + "x"));
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    if (const std::optional<SegmentHandle> read = segment_handle_from(damaged)) {
      EXPECT_NE(*read, handle);
      EXPECT_EQ(to_bytes(*read), damaged);
    }
  }
}

TEST(FreeMemory, IsTheLeastOfSystemAndGroups) {
  namespace fs = std::filesystem;
  const fs::path root = fs::path(testing::TempDir()) / ("free_memory_" + std::to_string(getpid()));
  auto file = [&](const std::string& path, const std::string& text) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  };
  EXPECT_EQ(free_memory(root), std::nullopt);
  file("proc/meminfo", "MemTotal: 9000 kB\nMemFree: 100 kB\nMemAvailable:   8000 kB\n");
  EXPECT_EQ(free_memory(root), 8000 * 1024);
  file("proc/self/cgroup", "0::/job/step\n");
  file("sys/fs/cgroup/job/step/memory.max", "max\n");
  file("sys/fs/cgroup/job/step/memory.current", "5000\n");
  EXPECT_EQ(free_memory(root), 8000 * 1024);
  file("sys/fs/cgroup/job/memory.max", "1000000\n");
  file("sys/fs/cgroup/job/memory.current", "900000\n");
  file("sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 200000\nactive_file 50000\n");
  EXPECT_EQ(free_memory(root), 350000);
  file("proc/self/cgroup", "7:memory:/old\n3:cpu:/\n");
  file("sys/fs/cgroup/memory/old/memory.limit_in_bytes", "70000\n");
  file("sys/fs/cgroup/memory/old/memory.usage_in_bytes", "80000\n");
  EXPECT_EQ(free_memory(root), 0);
  fs::remove_all(root);
  EXPECT_GT(free_memory().value_or(1), 0);
}

}  // namespace
}  // namespace rueda
