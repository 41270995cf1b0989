// SPDX-License-Identifier: Apache-2.0
#include "ops/setup/shown_record.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <new>

#include "core/base/system/descriptor.h"
#include "ops/bootstrap/address/agent_line.h"

namespace rueda::ops {
namespace {

constexpr std::size_t kLongestName = 256;

// A page of its own, where no shared memory of the ranks has one. Null where the system refuses it.
std::shared_ptr<RecorderPage> page_in_file(int& descriptor) {
  auto file = std::make_shared<Descriptor>(::memfd_create("rueda-record", MFD_CLOEXEC));
  if (!*file || ::ftruncate(file->number(), sizeof(RecorderPage)) != 0) return nullptr;
  void* const memory =
      ::mmap(nullptr, sizeof(RecorderPage), PROT_READ | PROT_WRITE, MAP_SHARED, file->number(), 0);
  if (memory == MAP_FAILED) return nullptr;
  descriptor = file->number();
  return {new (memory) RecorderPage, [file](RecorderPage* page) { ::munmap(page, sizeof *page); }};
}

}  // namespace

void show_record(RuntimeComponents& components, const std::string& group, const std::vector<Rank>& ranks) {
  AgentLine& agent = AgentLine::of_this_process();
  if (!agent) return;
  RuntimeComponents::RecordFile& file = components.record_file;
  if (!components.record) components.record = page_in_file(file.descriptor);
  agent.show_recorder(file.descriptor, file.offset,
                      fmt::format("{} {}", in_runs(ranks), group.substr(0, kLongestName)));
  components.stalled = [&agent] { agent.tell_stall(); };
}

std::string in_runs(const std::vector<Rank>& ranks) {
  std::string text;
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", ranks[first]);
    if (last > first) text += fmt::format("-{}", ranks[last]);
    first = last + 1;
  }
  return text.empty() ? "-" : text;
}

}  // namespace rueda::ops
