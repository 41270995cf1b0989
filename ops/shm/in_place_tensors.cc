// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/in_place_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ops/kernels/line.h"

namespace rueda {

InPlaceTensors::InPlaceTensors(const Plan& plan, std::span<Entry> entries, const PeerGroup& peers,
                               InlineVectors& lists)
    : plan_(plan), peers_(peers), lists_(lists), offsets_(lists, candidates(entries, peers)) {
  const Window* const window = peers.own_window;
  for (const Entry& entry : entries.first(candidates(entries, peers))) {
    const TensorView& output = entry.submission().output;
    const bool empty = output.bytes() == 0;  // lies anywhere
    const std::optional<std::uint64_t> offset = empty ? 0 : window->offset_of(output.data, output.bytes());
    if (!offset || !output.contiguous()) {
      rule_out();
      return;
    }
    offsets_.emplace_back(*offset);
  }
  if (possible() && peers.map_windows && !peers.map_windows()) rule_out();
}

void InPlaceTensors::find(std::span<std::byte* const> offers) {
  if (found()) return;
  tensors_.get_room(lists_, offsets_.size() * peers_.size());
  for (std::size_t entry = 0; entry < offsets_.size(); ++entry) {
    const auto bytes = static_cast<std::size_t>(plan_.tensors[entry].elements()) * size_of(plan_.dtype);
    for (std::size_t member = 0; member < peers_.size(); ++member) {
      std::uint64_t offset = 0;
      std::memcpy(&offset, offers[member] + entry * sizeof offset, sizeof offset);
      const SharedFile& window = **peers_.members[member].window;
      if (offset > window.size() || bytes > window.size() - offset) {
        tensors_.clear();
        throw WorkFailure{fmt::format("rank {} says that a tensor of {} bytes lies at {} of its window of {}",
                                      peers_.members[member].rank, bytes, offset, window.size())};
      }
      tensors_.emplace_back(window.data() + offset);
    }
  }
}

bool InPlaceTensors::begin_at_lines() const {
  return std::ranges::all_of(tensors_.all(), kernels::begins_line);
}

}  // namespace rueda
