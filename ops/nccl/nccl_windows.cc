// SPDX-License-Identifier: Apache-2.0
#include "ops/nccl/nccl_windows.h"

#include <fmt/format.h>

#include <algorithm>

namespace rueda {
namespace {

struct Told {
  bool brought = false;
  bool known = false;
  DeviceWindow window;
  std::vector<std::uint8_t> in_use;
};

Told read(Reader& reader) {
  Told told;
  told.brought = reader.get<std::uint8_t>() != 0;
  told.known = reader.get<std::uint8_t>() != 0;
  told.window.bytes = static_cast<std::size_t>(reader.get_size());
  told.window.slots = reader.get_list<DeviceWindow::Slot>(1, [](Reader& r) {
    DeviceWindow::Slot slot;
    slot.name = r.get_string();
    slot.offset = static_cast<std::size_t>(r.get_size());
    slot.bytes = static_cast<std::size_t>(r.get_size());
    return slot;
  });
  told.in_use = reader.get_list<std::uint8_t>(1, [](Reader& r) { return r.get<std::uint8_t>(); });
  return told;
}

// The fault of a window by itself, without a look at other ranks; empty if it has none.
std::string problem_of(const DeviceWindow& window) {
  std::size_t end = 0;
  for (const DeviceWindow::Slot& slot : window.slots) {
    if (slot.offset % kFusionAlignment != 0 || slot.offset < end || slot.offset > window.bytes ||
        slot.bytes > window.bytes - slot.offset) {
      return fmt::format(
          "its window of {} bytes has '{}' at {}, {} bytes; slots begin at multiples of {}, one behind the "
          "other, inside",
          window.bytes, slot.name, slot.offset, slot.bytes, kFusionAlignment);
    }
    end = slot.offset + slot.bytes;
  }
  return {};
}

std::string difference_between(const DeviceWindow& mine, const DeviceWindow& other, Rank rank) {
  if (mine.bytes != other.bytes || mine.slots.size() != other.slots.size()) {
    return fmt::format("its window has {} bytes and {} slots, that of rank {} has {} and {}; share the same",
                       mine.bytes, mine.slots.size(), rank, other.bytes, other.slots.size());
  }
  const auto [a, b] = std::ranges::mismatch(mine.slots, other.slots);
  if (a == mine.slots.end()) return {};
  return fmt::format(
      "its window has '{}' at {} ({} bytes), that of rank {} '{}' at {} ({} bytes); share the same", a->name,
      a->offset, a->bytes, rank, b->name, b->offset, b->bytes);
}

}  // namespace

Bytes NcclWindows::words(const DeviceWindow* window, bool known) const {
  const DeviceWindow none;
  Writer writer;
  writer.put(static_cast<std::uint8_t>(window != nullptr));
  writer.put(static_cast<std::uint8_t>(known));
  if (window == nullptr) window = &none;
  writer.put_size(window->bytes);
  writer.put_count(window->slots.size());
  for (const DeviceWindow::Slot& slot : window->slots) {
    writer.put_string(slot.name);
    writer.put_size(slot.offset);
    writer.put_size(slot.bytes);
  }
  writer.put_count(windows_.size());
  for (const Window& each : windows_) writer.put(static_cast<std::uint8_t>(each.in_use()));
  return writer.take();
}

NcclWindows::Verdict NcclWindows::compare(Reader all, const RankSet& members) const {
  std::vector<Told> told;
  for (Rank i = 0; i < members.count(); ++i) told.push_back(read(all));
  const auto fits = [&](const Told& each) { return each.in_use.size() == windows_.size(); };
  if (!all.complete() || !std::ranges::all_of(told, fits))
    return {true, false, "what ranks say of their windows is of another build", {}};
  Verdict verdict;
  for (std::size_t window = 0; window < windows_.size(); ++window) {
    const auto uses = [&](const Told& each) { return each.in_use[window] != 0; };
    if (std::ranges::none_of(told, uses)) verdict.gone.push_back(window);
  }
  verdict.shared = std::ranges::all_of(told, &Told::brought);
  if (!verdict.shared) return verdict;
  verdict.difference = problem_of(told.front().window);
  for (std::size_t i = 1; i < told.size() && verdict.difference.empty(); ++i)
    verdict.difference =
        difference_between(told.front().window, told[i].window, members.at(static_cast<Rank>(i)));
  verdict.registered = std::ranges::all_of(told, &Told::known);
  return verdict;
}

void NcclWindows::add(std::shared_ptr<const DeviceWindow> window, bool registered) {
  for (const DeviceWindow::Slot& slot : window->slots)
    spots_[slot.name] = {windows_.size(), slot.offset, slot.bytes, nullptr};
  windows_.push_back({std::move(window), registered});
}

void NcclWindows::remove(std::size_t window) {
  std::erase_if(spots_, [&](const auto& each) { return each.second.window == window; });
  for (auto& [name, spot] : spots_) {
    if (spot.window > window) --spot.window;
  }
  windows_.erase(windows_.begin() + static_cast<std::ptrdiff_t>(window));
}

const NcclWindows::Spot* NcclWindows::find(const std::string& name, std::size_t bytes) const {
  const auto found = spots_.find(name);
  return found != spots_.end() && found->second.bytes == bytes ? &found->second : nullptr;
}

// Those of one Plan mostly have one fence.
void NcclWindows::hold_back(DeviceStream stream, std::span<const PlanTensor> tensors) const {
  const Fence* last = nullptr;
  for (const PlanTensor& tensor : tensors) {
    const auto found = spots_.find(tensor.name());
    if (found == spots_.end() || found->second.used == nullptr || found->second.used.get() == last) continue;
    last = found->second.used.get();
    last->hold_back(stream);
  }
}

void NcclWindows::used(std::span<const PlanTensor> tensors, const std::shared_ptr<const Fence>& fence) {
  for (const PlanTensor& tensor : tensors) {
    if (const auto found = spots_.find(tensor.name()); found != spots_.end()) found->second.used = fence;
  }
}

bool NcclWindows::registered_at(const void* memory) const {
  return std::ranges::any_of(windows_, [&](const Window& each) {
    const auto begin = reinterpret_cast<std::uintptr_t>(each.shared->memory.get());
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    return each.registered && address >= begin && address < begin + each.shared->bytes;
  });
}

}  // namespace rueda
