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
#include "core/base/system/sealed_block.h"
#include "core/base/time.h"
#include "rueda/types.h"

namespace rueda {

// Purpose: 64 KiB of plain memory, laid out the same in every process of one build: it may live in shared
// memory, where a peer reads it after the writer was killed. One writer (a Recorder), any number of readers.
struct RecorderPage {
  static constexpr std::uint64_t kMagic = 0x65676170'64756572;  // "ruedpage"
  static constexpr std::uint64_t kVersion = 2;
  static constexpr std::size_t kBytes = 64 << 10;
  static constexpr std::size_t kSlots = 300;
  static constexpr std::size_t kNameBytes = 96;
  static constexpr std::size_t kActivityBytes = 64;
  static constexpr std::size_t kDimensions = 4;  // of a longer shape the last one is a product
  static constexpr std::size_t kSets = 48;
  static constexpr Rank kRanksOfSet = 1024;

  // The words of a slot.
  enum Word : std::uint8_t {
    ticket,     // how many operations this rank had submitted before this one
    submitted,  // nanoseconds of this machine's monotonic clock, 0: not yet
    started,
    ended,
    bytes,
    kind,         // bytes from the lowest: state, operation, length of the name, data type, dimensions
    plan,         // 0: rank 0 has not called it yet
    process_set,  // and in the upper half the root
    dimensions,   // half a word each; none where one has no room: then there are more than kDimensions
    name = dimensions + kDimensions / 2,
    word_count = name + kNameBytes / 8,
  };
  using Slot = SealedBlock<word_count>;

  // The words of a process set.
  enum SetWord : std::uint8_t {
    set_id,     // 0: none
    set_count,  // of its members, which are listed if all are below kRanksOfSet
    set_ranks,  // a bit each
    set_word_count = set_ranks + kRanksOfSet / 64,
  };
  using Set = SealedBlock<set_word_count>;

  std::uint64_t magic = kMagic;
  std::uint64_t version = kVersion;
  std::uint64_t process_id = 0;
  std::uint64_t rank = 0;
  std::uint64_t size = 0;  // ranks of the job
  std::uint64_t job = 0;   // its number, the same on all of them
  std::uint64_t submitted_count = 0;
  std::uint64_t unrecorded = 0;      // operations in flight that found no slot
  std::uint64_t forgotten_plan = 0;  // the last one of which an operation has lost its slot
  std::uint64_t ended_in_order = 0;  // 1: the job is over, and nothing has failed
  SealedBlock<kActivityBytes / 8> activity;
  std::array<Slot, kSlots> slots{};
  std::array<Set, kSets> sets{};
  std::array<std::uint64_t, 12> spare{};
};
static_assert(sizeof(RecorderPage) == RecorderPage::kBytes && std::is_trivially_copyable_v<RecorderPage> &&
              std::is_standard_layout_v<RecorderPage>);

enum class RecordedState : std::uint8_t { submitted, started, completed, failed };
inline constexpr int kRecordedStateCount = 4;

// One operation as a page tells it. A plain value.
struct RecordedOperation {
  std::uint64_t ticket = 0;
  RecordedState state = RecordedState::submitted;
  Operation operation = Operation::allreduce;
  std::string name;  // in the middle of a long one stands "..."
  std::uint64_t bytes = 0;
  std::uint64_t plan = 0;  // 0: none yet; until then some rank has not submitted it
  ProcessSetId process_set = kWorld;
  Rank root = 0;
  DataType dtype = DataType::float32;
  std::vector<std::int64_t> shape;  // at most RecorderPage::kDimensions
  std::int64_t submitted_ns = 0;
  std::int64_t started_ns = 0;
  std::int64_t ended_ns = 0;
};

// A process set that a rank knows. A plain value.
struct RecordedSet {
  ProcessSetId id = kWorld;
  Rank count = 0;
  std::vector<Rank> members;  // ascending; none where they are too many to be recorded
};

// The contents of a page. A plain value.
struct Recording {
  Rank rank = 0;
  Rank size = 0;          // 0: the job has not begun
  std::uint64_t job = 0;  // its number
  std::int64_t process_id = 0;
  bool ended_in_order = false;
  std::string activity;
  std::uint64_t forgotten_plan = 0;  // of Plans up to this one, operations may be missing here
  std::vector<RecordedSet> sets;     // but the world, and pairs that exchange messages
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

}  // namespace rueda
