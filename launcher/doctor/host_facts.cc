// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/host_facts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string_view>

#include "launcher/job/mpich_cleanup.h"
#include "launcher/system/descriptor.h"
#include "launcher/system/machine.h"

namespace rueda {
namespace {

namespace fs = std::filesystem;

constexpr const char* kShm = "/dev/shm";
constexpr std::size_t kMostLeft = 64;                        // files that are named
constexpr std::size_t kTried = 1 << 20;                      // bytes of memory that are made for a try
constexpr std::time_t kYoung = 60;                           // seconds: a job may have made the file just now
constexpr const char* kFirstProcesses = "pid:[4026531836]";  // Linux gives its first namespace this number

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string first_word(const fs::path& path) {
  std::string word;
  std::ifstream(path) >> word;
  return word;
}

std::string problem(std::string_view call) { return fmt::format("{}: {}", call, std::strerror(errno)); }

// Empty where so much memory can be made and written through this descriptor.
std::string try_memory(const Descriptor& file, std::string_view made_by) {
  if (!file) return problem(made_by);
  if (::ftruncate(file.number(), kTried) != 0) return problem("ftruncate");
  if (const int error = ::posix_fallocate(file.number(), 0, kTried); error != 0)
    return fmt::format("allocate: {}", std::strerror(error));
  void* memory = ::mmap(nullptr, kTried, PROT_READ | PROT_WRITE, MAP_SHARED, file.number(), 0);
  if (memory == MAP_FAILED) return problem("mmap");
  std::memset(memory, 1, kTried);
  ::munmap(memory, kTried);
  return "";
}

std::string try_shm() {
  const std::string name = fmt::format("/rueda_doctor_{}", ::getpid());
  const Descriptor file(::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  std::string found = try_memory(file, "shm_open");
  if (file) ::shm_unlink(name.c_str());
  return found;
}

std::string try_memfd() {
  return try_memory(Descriptor(::memfd_create("rueda_doctor", MFD_CLOEXEC)), "memfd_create");
}

// "madvise" of "always [madvise] never".
std::string chosen_in(const std::string& text) {
  const std::size_t open = text.find('['), close = text.find(']', open);
  return close == std::string::npos ? "" : text.substr(open + 1, close - open - 1);
}

agents::LimitFacts limit_of(int resource) {
  rlimit limit{};
  ::getrlimit(static_cast<__rlimit_resource>(resource), &limit);
  const auto number = [](rlim_t value) {
    return value == RLIM_INFINITY ? agents::kUnlimited : std::uint64_t{value};
  };
  return {number(limit.rlim_cur), number(limit.rlim_max)};
}

bool is_number(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::uint64_t threads_of(uid_t user) {
  std::uint64_t all = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    if (!is_number(entry.path().filename().string())) continue;
    std::ifstream file(entry.path() / "status");
    std::uint64_t owner = 0, threads = 0;
    bool known = false;
    for (std::string word; file >> word;) {
      if (word == "Uid:") known = static_cast<bool>(file >> owner);
      if (word == "Threads:" && file >> threads) break;
    }
    if (known && owner == user) all += threads;
  }
  return all;
}

bool is_of_a_job(const std::string& name) {
  constexpr std::array<std::string_view, 8> kBeginnings{
      "mpich_shm_", "rueda", "torch_", "nccl-", "sem.mp-", "psm2_shm.", "vader_segment.", "ucx_shm_"};
  return std::ranges::any_of(kBeginnings, [&](std::string_view begin) { return name.starts_with(begin); });
}

bool sees_all_processes() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/ns/pid", ignored).string() == kFirstProcesses;
}

bool is_in_container() {
  std::error_code ignored;
  return !sees_all_processes() || fs::exists("/.dockerenv", ignored) ||
         fs::exists("/run/.containerenv", ignored) || std::getenv("KUBERNETES_SERVICE_HOST") != nullptr;
}

void find_left_files(agents::ProcessFacts& facts) {
  std::set<std::string> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(kShm, ignored)) {
    struct stat about {};
    const bool ours = ::lstat(entry.path().c_str(), &about) == 0 && S_ISREG(about.st_mode) &&
                      about.st_uid == ::getuid() && about.st_mtim.tv_sec + kYoung <= std::time(nullptr) &&
                      is_of_a_job(entry.path().filename().string());
    if (ours) files.insert(entry.path().string());
  }
  const std::set<std::string> left = unused(std::move(files));
  facts.left_count = left.size();
  for (const std::string& file : left) {
    if (facts.left_files.size() < kMostLeft) facts.left_files.push_back(file);
    const std::uintmax_t size = fs::file_size(file, ignored);
    if (!ignored) facts.left_bytes += size;
  }
}

}  // namespace

agents::MemoryFacts memory_facts() {
  agents::MemoryFacts facts;
  struct statvfs about {};
  if (::statvfs(kShm, &about) == 0) {
    facts.shm_bytes = std::uint64_t{about.f_blocks} * about.f_frsize;
    facts.shm_free = std::uint64_t{about.f_bavail} * about.f_frsize;
  }
  facts.shm_problem = try_shm();
  facts.memfd_problem = try_memfd();
  const MachineMemory memory = machine_memory();
  facts.installed = memory.installed;
  facts.available = memory.available;
  const CgroupLimits cgroup = own_limits();
  facts.cgroup_limit = cgroup.memory;
  facts.cgroup_used = cgroup.memory_used;
  facts.huge_pages = chosen_in(text_of("/sys/kernel/mm/transparent_hugepage/enabled"));
  return facts;
}

agents::CoreFacts core_facts() {
  agents::CoreFacts facts;
  facts.online = static_cast<std::int32_t>(::sysconf(_SC_NPROCESSORS_ONLN));
  const std::set<int> usable = usable_processors();
  facts.usable = static_cast<std::int32_t>(usable.size());
  std::set<std::string> cores;  // by the threads of each
  for (const int number : usable)
    cores.insert(
        first_word(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", number)));
  facts.physical = cores.contains("") ? 0 : static_cast<std::int32_t>(cores.size());
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/sys/devices/system/node", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("node") && is_number(name.substr(4))) ++facts.numa_nodes;
  }
  facts.cgroup_millicores = own_limits().millicores;
  facts.clock_source = first_word("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  return facts;
}

agents::ProcessFacts process_facts() {
  agents::ProcessFacts facts;
  facts.open_files = limit_of(RLIMIT_NOFILE);
  facts.processes = limit_of(RLIMIT_NPROC);
  facts.locked_memory = limit_of(RLIMIT_MEMLOCK);
  facts.core_file = limit_of(RLIMIT_CORE);
  facts.threads_of_user = threads_of(::getuid());
  const CgroupLimits cgroup = own_limits();
  facts.cgroup_limit = cgroup.processes;
  facts.cgroup_used = cgroup.processes_used;
  facts.is_root = ::geteuid() == 0;
  facts.in_container = is_in_container();
  facts.sees_all = sees_all_processes();
  find_left_files(facts);
  return facts;
}

}  // namespace rueda
