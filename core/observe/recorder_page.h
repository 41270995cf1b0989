// SPDX-License-Identifier: Apache-2.0
// The memory in which a rank keeps what it is doing, and the bounded reader of such memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/base/bytes.h"
#include "core/observe/sealed_block.h"
#include "rueda/types.h"

namespace rueda {

// Purpose: 64 KiB of plain memory, laid out the same in every process of one build: it may live in shared
// memory, where a peer reads it after the writer was killed. One writer (a Recorder), any number of readers.
struct RecorderPage {
  static constexpr std::uint64_t kMagic = 0x65676170'64756572;  // "ruedpage"
  static constexpr std::uint64_t kVersion = 1;
  static constexpr std::size_t kBytes = 64 << 10;
  static constexpr std::size_t kSlots = 340;
  static constexpr std::size_t kNameBytes = 112;
  static constexpr std::size_t kOperationBytes = 16;
  static constexpr std::size_t kActivityBytes = 64;

  // The words of a slot.
  enum Word : std::uint8_t {
    ticket,     // how many operations this rank had submitted before this one
    submitted,  // nanoseconds of this machine's monotonic clock, 0: not yet
    started,
    ended,
    bytes,
    kind,  // state in byte 0, length of the operation in byte 1, of the name in byte 2
    operation,
    name = operation + kOperationBytes / 8,
    word_count = name + kNameBytes / 8,
  };
  using Slot = SealedBlock<word_count>;

  std::uint64_t magic = kMagic;
  std::uint64_t version = kVersion;
  std::uint64_t process_id = 0;
  std::uint64_t rank = 0;
  std::uint64_t submitted_count = 0;
  std::uint64_t unrecorded = 0;  // operations in flight that found no slot
  SealedBlock<kActivityBytes / 8> activity;
  std::array<Slot, kSlots> slots{};
  std::array<std::uint64_t, 16> spare{};
};
static_assert(sizeof(RecorderPage) == RecorderPage::kBytes && std::is_trivially_copyable_v<RecorderPage> &&
              std::is_standard_layout_v<RecorderPage>);

enum class RecordedState : std::uint8_t { submitted, started, completed, failed };
inline constexpr int kRecordedStateCount = 4;

// One operation as a page tells it. A plain value.
struct RecordedOperation {
  std::uint64_t ticket = 0;
  RecordedState state = RecordedState::submitted;
  std::string operation;
  std::string name;  // in the middle of a long one stands "..."
  std::uint64_t bytes = 0;
  std::int64_t submitted_ns = 0;
  std::int64_t started_ns = 0;
  std::int64_t ended_ns = 0;
};

// The contents of a page. A plain value.
struct Recording {
  Rank rank = 0;
  std::int64_t process_id = 0;
  std::string activity;
  std::uint64_t unrecorded = 0;
  std::vector<RecordedOperation> in_flight;  // oldest first
  std::vector<RecordedOperation> ended;      // the one that ended last is last
};

// Nothing when the bytes are no page of this version. They may be changing, and may be anything.
std::optional<Recording> read_recording(ConstBytes page);

// For people, each line indented: the activity, operations in flight (oldest first), the last ended ones.
std::vector<std::string> describe(const Recording& recording, std::int64_t now_ns);

// The same in one line.
std::string summarize(const Recording& recording, std::int64_t now_ns);

// The reader and description together, at this moment of this machine's monotonic clock. One line when it is
// no page.
std::vector<std::string> read_recorder_page(ConstBytes page);

// `name` in at most `most` bytes (16 or more), with "..." in the middle when it is longer.
std::string short_name(std::string_view name, std::size_t most);

// This machine's monotonic clock, which all its processes share.
std::int64_t monotonic_ns();

}  // namespace rueda
