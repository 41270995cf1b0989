// SPDX-License-Identifier: Apache-2.0
#include "launcher/stacks/native_stacks.h"

#include <cxxabi.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string_view>

#include "launcher/system/descriptor.h"
#include "launcher/system/json_text.h"

namespace rueda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostFrames = 256;
constexpr std::size_t kLongestSymbol = 4096;                // that is read
constexpr std::size_t kLongestName = 400;                   // that is shown
constexpr auto kForLines = std::chrono::milliseconds(300);  // of source files: then functions alone
constexpr const char* kVdso = "[vdso]";

// Registers of the debug format, as indices of Registers.
constexpr std::array<std::size_t, 17> kDwarfRegisters{10, 12, 11, 5, 13, 14, 4, 19, 9,
                                                      8,  7,  6,  3, 2,  1,  0, 16};

using Addresses = std::vector<Dwarf_Addr>;

struct Mapping {
  std::uint64_t begin = 0, end = 0;
  bool has_code = false;
  std::string path;
};

std::vector<std::pair<std::string, Mapping>> lines_of(const std::string& mappings) {
  std::vector<std::pair<std::string, Mapping>> lines;
  std::istringstream text(mappings);
  for (std::string line; std::getline(text, line);) {
    Mapping mapping;
    std::array<char, 8> rights{};
    int path = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %5s %*s %*s %*s %n", &mapping.begin, &mapping.end,
                    rights.data(), &path) < 3)
      continue;
    mapping.has_code = rights[2] == 'x';
    if (path > 0) mapping.path = line.substr(static_cast<std::size_t>(path));
    lines.emplace_back(line, std::move(mapping));
  }
  return lines;
}

// The lines of files with code.
std::string lines_with_code(const std::string& mappings) {
  const auto lines = lines_of(mappings);
  std::set<std::string> paths;
  for (const auto& [line, mapping] : lines)
    if (mapping.has_code && mapping.path.starts_with('/')) paths.insert(mapping.path);
  std::string kept;
  for (const auto& [line, mapping] : lines)
    if (paths.contains(mapping.path)) kept += line + "\n";
  return kept;
}

std::optional<Mapping> vdso_of(const std::string& mappings) {
  for (const auto& [line, mapping] : lines_of(mappings))
    if (mapping.path == kVdso) return mapping;
  return std::nullopt;
}

// The kernel gives all processes the same.
Elf* own_vdso() {
  const std::optional<Mapping> own = vdso_of(text_of_file("/proc/self/maps"));
  if (!own) return nullptr;
  return ::elf_memory(reinterpret_cast<char*>(own->begin), own->end - own->begin);
}

int find_elf(Dwfl_Module*, void**, const char* name, Dwarf_Addr, char** file_name, Elf** elf) {
  if (std::strcmp(name, kVdso) == 0) {
    *elf = own_vdso();
    return -1;
  }
  struct stat about {};
  if (::stat(name, &about) != 0 || !S_ISREG(about.st_mode)) return -1;  // a device might do anything
  const int file = ::open(name, O_RDONLY | O_CLOEXEC);
  if (file >= 0) *file_name = ::strdup(name);
  return file;
}

int find_no_debuginfo(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word,
                      char**) {
  return -1;
}

std::string_view file_name_of(const char* path) {
  const std::string_view text = path == nullptr ? "" : path;
  return text.substr(text.rfind('/') + 1);
}

std::string shortened(std::string name) {
  if (name.size() > kLongestName) name = name.substr(0, kLongestName) + "…";
  return name;
}

std::string readable(const char* symbol) {
  const std::size_t length = ::strnlen(symbol, kLongestSymbol);
  if (length == kLongestSymbol) return shortened(std::string(symbol, length));
  int status = -1;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(symbol, nullptr, nullptr, &status),
                                                    std::free);
  return shortened(status == 0 && name ? name.get() : symbol);
}

// Purpose: the modules of one process, and the threads of its snapshot, as libdw wants them.
class Unwinder {
 public:
  explicit Unwinder(const ProcessSnapshot& snapshot)
      : snapshot_(snapshot), modules_(::dwfl_begin(&kModuleCallbacks), ::dwfl_end) {
    if (!modules_) return;
    std::string maps = lines_with_code(snapshot.mappings);
    ::dwfl_report_begin(modules_.get());
    if (std::FILE* file = maps.empty() ? nullptr : ::fmemopen(maps.data(), maps.size(), "r")) {
      ::dwfl_linux_proc_maps_report(modules_.get(), file);
      std::fclose(file);
    }
    if (const auto vdso = vdso_of(snapshot.mappings))
      ::dwfl_report_module(modules_.get(), kVdso, vdso->begin, vdso->end);
    ::dwfl_report_end(modules_.get(), nullptr, nullptr);
    is_ready_ = ::dwfl_attach_state(modules_.get(), nullptr, snapshot.process, &kThreadCallbacks, this);
  }

  // The innermost first.
  Addresses addresses(const ProcessSnapshot::Thread& thread) {
    Addresses frames;
    thread_ = &thread;
    if (is_ready_) ::dwfl_getthread_frames(modules_.get(), thread.facts.id, &Unwinder::take_frame, &frames);
    if (frames.empty()) frames.push_back(thread.registers[kDwarfRegisters.back()]);
    return frames;
  }

  std::vector<std::string> names(const Addresses& frames) {
    std::vector<std::string> names;
    for (const Dwarf_Addr at : frames) names.push_back(name_at(at));
    if (frames.size() == kMostFrames) names.emplace_back("… and more");
    return names;
  }

  // From now on, for a while.
  void look_for_lines() {
    names_.clear();
    lines_until_ = Clock::now() + kForLines;
  }

 private:
  static int take_frame(Dwfl_Frame* frame, void* argument) {
    auto& frames = *static_cast<Addresses*>(argument);
    Dwarf_Addr at = 0;
    bool is_activation = false;
    if (!::dwfl_frame_pc(frame, &at, &is_activation)) return DWARF_CB_ABORT;
    if (at == 0) return DWARF_CB_ABORT;
    frames.push_back(is_activation ? at : at - 1);
    return frames.size() < kMostFrames ? DWARF_CB_OK : DWARF_CB_ABORT;
  }

  static pid_t next_thread(Dwfl*, void* argument, void** slot) {
    auto& self = *static_cast<Unwinder*>(argument);
    if (*slot != nullptr) return 0;
    *slot = &self;
    return self.thread_->facts.id;
  }
  static bool get_thread(Dwfl*, pid_t, void* argument, void** slot) {
    *slot = argument;
    return true;
  }
  static bool set_registers(Dwfl_Thread* thread, void* argument) {
    const auto& self = *static_cast<Unwinder*>(argument);
    std::array<Dwarf_Word, kDwarfRegisters.size()> values{};
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = self.thread_->registers[kDwarfRegisters[i]];
    return ::dwfl_thread_state_registers(thread, 0, values.size(), values.data());
  }
  static bool read_memory(Dwfl*, Dwarf_Addr at, Dwarf_Word* word, void* argument) {
    const StackCopy& stack = static_cast<Unwinder*>(argument)->thread_->stack;
    if (stack.bytes.size() < sizeof *word || at < stack.begin ||
        at - stack.begin > stack.bytes.size() - sizeof *word)
      return false;
    std::memcpy(word, stack.bytes.data() + (at - stack.begin), sizeof *word);
    return true;
  }

  const std::string& name_at(Dwarf_Addr at) {
    const auto found = names_.find(at);
    return found != names_.end() ? found->second : names_.emplace(at, find_name(at)).first->second;
  }

  std::string find_name(Dwarf_Addr at) const {
    Dwfl_Module* module = modules_ ? ::dwfl_addrmodule(modules_.get(), at) : nullptr;
    if (module == nullptr) return "unknown code";
    Dwarf_Addr begin = 0;
    const std::string_view file = file_name_of(
        ::dwfl_module_info(module, nullptr, &begin, nullptr, nullptr, nullptr, nullptr, nullptr));
    GElf_Off offset = 0;
    GElf_Sym symbol{};
    const char* name = ::dwfl_module_addrinfo(module, at, &offset, &symbol, nullptr, nullptr, nullptr);
    if (name == nullptr) return fmt::format("{}+{:#x}", file, at - begin);
    return fmt::format("{} ({})", readable(name), source_at(module, at).value_or(std::string(file)));
  }

  std::optional<std::string> source_at(Dwfl_Module* module, Dwarf_Addr at) const {
    if (Clock::now() > lines_until_) return std::nullopt;
    Dwfl_Line* line = ::dwfl_module_getsrc(module, at);
    int number = 0;
    const char* path =
        line == nullptr ? nullptr : ::dwfl_lineinfo(line, nullptr, &number, nullptr, nullptr, nullptr);
    if (path == nullptr) return std::nullopt;
    return fmt::format("{}:{}", file_name_of(path), number);
  }

  static const Dwfl_Callbacks kModuleCallbacks;
  static const Dwfl_Thread_Callbacks kThreadCallbacks;

  const ProcessSnapshot& snapshot_;
  std::unique_ptr<Dwfl, void (*)(Dwfl*)> modules_;
  bool is_ready_ = false;
  const ProcessSnapshot::Thread* thread_ = nullptr;  // of which the frames are wanted
  std::map<Dwarf_Addr, std::string> names_;
  Clock::time_point lines_until_{};  // not yet
};

const Dwfl_Callbacks Unwinder::kModuleCallbacks{.find_elf = find_elf,
                                                .find_debuginfo = find_no_debuginfo,
                                                .section_address = nullptr,
                                                .debuginfo_path = nullptr};
const Dwfl_Thread_Callbacks Unwinder::kThreadCallbacks{.next_thread = next_thread,
                                                       .get_thread = get_thread,
                                                       .memory_read = read_memory,
                                                       .set_initial_registers = set_registers,
                                                       .detach = nullptr,
                                                       .thread_detach = nullptr};

}  // namespace

bool has_native_stacks() { return true; }

// Lines of source files may take all the time there is.
void write_native_stacks(const ProcessSnapshot& snapshot, int descriptor) {
  Unwinder unwinder(snapshot);
  std::vector<std::pair<pid_t, Addresses>> threads;
  const auto write = [&](pid_t id, const Addresses& frames) {
    const nlohmann::json line{{"id", id}, {"frames", unwinder.names(frames)}};
    return !write_all(descriptor, json_text(line) + "\n");
  };
  for (const ProcessSnapshot::Thread& thread : snapshot.threads) {
    if (!thread.is_read) continue;
    threads.emplace_back(thread.facts.id, unwinder.addresses(thread));
    if (!write(threads.back().first, threads.back().second)) return;
  }
  unwinder.look_for_lines();
  for (const auto& [id, frames] : threads)
    if (!write(id, frames)) return;
}

}  // namespace rueda
