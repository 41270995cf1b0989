// SPDX-License-Identifier: Apache-2.0
#include "launcher/dump/flight_records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/control/messages/message_pair.h"
#include "launcher/dump/pickle_writer.h"

namespace rueda {
namespace {

using Sizes = std::vector<std::int64_t>;

constexpr std::string_view kVersion = "2.10";  // of torch's format
constexpr std::string_view kNoDescription = "undefined";

// In the order of Operation. Those without data count as a barrier; join has no counterpart.
constexpr std::array<std::string_view, kOperationCount> kTorchNames{"all_reduce",
                                                                    "all_gather",
                                                                    "broadcast",
                                                                    "all_to_all",
                                                                    "reduce_scatter",
                                                                    "reduce",
                                                                    "gather",
                                                                    "scatter",
                                                                    "send",
                                                                    "all_reduce_barrier",
                                                                    "",
                                                                    "all_reduce_barrier",
                                                                    "all_reduce_barrier"};

// In the order of DataType.
constexpr std::array<std::string_view, kDataTypeCount> kTorchTypes{
    "Byte", "Char", "Short", "Int", "Long", "Half", "BFloat16", "Float", "Double", "Bool"};

// One operation of one rank.
struct Entry {
  const JobOperation* whole = nullptr;
  const RecordedOperation* own = nullptr;
  const JobGroup* group = nullptr;
  std::size_t group_number = 0;
  std::int64_t number = 0;  // in the group
};

struct Shapes {
  std::optional<Sizes> input;
  std::optional<Sizes> output;
};

bool is_message(const RecordedOperation& operation) { return operation.operation == Operation::message; }

// "nccl:all_reduce", "nccl:send 0->1", "nccl:recv 1<-0". Ranks of a message count from 0.
std::string torch_name(const Entry& entry, Rank rank) {
  const RecordedOperation& own = *entry.own;
  const std::string_view name = kTorchNames.at(static_cast<std::size_t>(own.operation));
  const std::optional<MessagePair> pair = MessagePair::of(own.process_set);
  if (!is_message(own) || !pair) return fmt::format("nccl:{}", name);
  const bool lower_sends = pair->source < pair->destination;
  const int here = rank == entry.group->ranks.front() ? 0 : 1;
  const bool sends = (here == 0) == lower_sends;
  return sends ? fmt::format("nccl:send {}->{}", here, 1 - here)
               : fmt::format("nccl:recv {}<-{}", here, 1 - here);
}

// Whether the ranks' tensors have different numbers of rows, and differ in nothing else.
bool has_uneven_rows(const JobOperation& operation) {
  const RecordedOperation& first = operation.on.begin()->second;
  bool differs = false;
  for (const auto& [rank, each] : operation.on) {
    if (each.shape.empty() || each.shape.size() != first.shape.size()) return false;
    if (!std::equal(each.shape.begin() + 1, each.shape.end(), first.shape.begin() + 1)) return false;
    differs = differs || each.shape.front() != first.shape.front();
  }
  return differs;
}

// With `rows` in place of its own.
Sizes with_rows(Sizes shape, std::int64_t rows) {
  if (shape.empty()) shape.push_back(1);
  shape.front() = rows;
  return shape;
}

Shapes shapes_of(const Entry& entry) {
  const RecordedOperation& own = *entry.own;
  const auto ranks = static_cast<std::int64_t>(std::max<std::size_t>(entry.group->ranks.size(), 1));
  const std::int64_t rows = own.shape.empty() ? 1 : own.shape.front();
  const bool uneven = has_uneven_rows(*entry.whole);
  switch (own.operation) {
    case Operation::allgather:
      if (uneven) return {with_rows(own.shape, 1), with_rows(own.shape, ranks)};
      return {own.shape, with_rows(own.shape, static_cast<std::int64_t>(static_cast<std::uint64_t>(rows) *
                                                                        static_cast<std::uint64_t>(ranks)))};
    case Operation::reducescatter:
      if (rows % ranks != 0 && !uneven) return {with_rows(own.shape, ranks), with_rows(own.shape, 1)};
      return {own.shape, with_rows(own.shape, rows / ranks)};
    case Operation::gather: return {uneven ? with_rows(own.shape, 1) : own.shape, std::nullopt};
    case Operation::scatter: return {own.shape, std::nullopt};
    case Operation::message:
    case Operation::allreduce:
    case Operation::broadcast:
    case Operation::alltoall:  // the rows that come are not recorded
    case Operation::reduce: return {own.shape, own.shape};
    case Operation::barrier:
    case Operation::join:
    case Operation::add_process_set:
    case Operation::remove_process_set: break;
  }
  return {};
}

void put_sizes(PickleWriter& writer, const char* key, const std::optional<Sizes>& sizes) {
  writer.put(key);
  writer.begin_list();
  if (sizes) {
    writer.begin_list();
    for (const std::int64_t size : *sizes) writer.put(size);
    writer.end_list();
  }
  writer.end_list();
}

void put_type(PickleWriter& writer, const char* key, bool has_one, DataType dtype) {
  writer.put(key);
  writer.begin_list();
  if (has_one) writer.put(kTorchTypes.at(static_cast<std::size_t>(dtype)));
  writer.end_list();
}

void put_time(PickleWriter& writer, const char* key, bool is_known, std::int64_t time) {
  writer.put(key);
  if (is_known)
    writer.put(time);
  else
    writer.put_none();
}

// As torch counts: a failed operation is not complete.
std::string_view state_of(const RecordedOperation& operation) {
  if (operation.state == RecordedState::completed) return "completed";
  return operation.started_ns != 0 ? "started" : "scheduled";
}

void put_number(PickleWriter& writer, const char* key, std::int64_t value) {
  writer.put(key);
  writer.put(value);
}

void put_text(PickleWriter& writer, const char* key, std::string_view value) {
  writer.put(key);
  writer.put(value);
}

void put_flag(PickleWriter& writer, const char* key, bool value) {
  writer.put(key);
  writer.put(value);
}

void put_entry(PickleWriter& writer, const Entry& entry, Rank rank, std::int64_t record) {
  const RecordedOperation& own = *entry.own;
  const Shapes shapes = shapes_of(entry);
  const bool completed = own.state == RecordedState::completed;
  writer.begin_dictionary();
  put_number(writer, "record_id", record);
  put_number(writer, "pg_id", static_cast<std::int64_t>(entry.group_number));
  writer.put("process_group");
  writer.begin_tuple();
  writer.put(entry.group->name);
  writer.put(kNoDescription);
  writer.end_tuple();
  put_number(writer, "collective_seq_id", entry.number);
  put_number(writer, "p2p_seq_id", is_message(own) ? entry.number : 0);
  put_number(writer, "op_id", entry.number);
  put_text(writer, "profiling_name", torch_name(entry, rank));
  put_number(writer, "time_created_ns", own.submitted_ns);
  if (completed && own.started_ns != 0) {
    writer.put("duration_ms");
    const std::uint64_t ns =
        static_cast<std::uint64_t>(own.ended_ns) - static_cast<std::uint64_t>(own.started_ns);
    writer.put(static_cast<double>(static_cast<std::int64_t>(ns)) * 1e-6);
  }
  const bool receives = torch_name(entry, rank).starts_with("nccl:recv");
  const bool sends = is_message(own) && !receives;
  put_sizes(writer, "input_sizes", receives ? std::nullopt : shapes.input);
  put_type(writer, "input_dtypes", shapes.input && !receives, own.dtype);
  put_sizes(writer, "output_sizes", sends ? std::nullopt : shapes.output);
  put_type(writer, "output_dtypes", shapes.output && !sends, own.dtype);
  put_text(writer, "state", state_of(own));
  put_time(writer, "time_discovered_started_ns", own.started_ns != 0, own.started_ns);
  put_time(writer, "time_discovered_completed_ns", completed, own.ended_ns);
  put_flag(writer, "retired", own.ended_ns != 0);
  put_flag(writer, "is_p2p", is_message(own));
  put_text(writer, "name", own.name);  // not torch's, as the next one
  put_number(writer, "plan", static_cast<std::int64_t>(own.plan));
  writer.end_dictionary();
}

void put_groups(PickleWriter& writer, const std::vector<JobGroup>& groups, Rank rank) {
  writer.put("pg_config");
  writer.begin_dictionary();
  for (const JobGroup& group : groups) {
    if (std::ranges::find(group.ranks, rank) == group.ranks.end()) continue;
    writer.put(group.name);
    writer.begin_dictionary();
    put_text(writer, "name", group.name);
    put_text(writer, "desc", kNoDescription);
    put_text(writer, "ranks", fmt::format("[{}]", fmt::join(group.ranks, ", ")));
    writer.end_dictionary();
  }
  writer.end_dictionary();
}

void put_status(PickleWriter& writer, const std::vector<JobGroup>& groups,
                const std::vector<Entry>& entries) {
  writer.put("pg_status");
  writer.begin_dictionary();
  for (std::size_t number = 0; number < groups.size(); ++number) {
    std::int64_t enqueued = -1, started = -1, completed = -1;
    for (const Entry& entry : entries) {
      if (entry.group_number != number) continue;
      enqueued = std::max(enqueued, entry.number);
      if (entry.own->started_ns != 0) started = std::max(started, entry.number);
      if (entry.own->state == RecordedState::completed) completed = std::max(completed, entry.number);
    }
    if (enqueued < 0) continue;
    writer.put(std::to_string(number));
    writer.begin_dictionary();
    put_number(writer, "last_enqueued_collective", enqueued);
    put_number(writer, "last_started_collective", started);
    put_number(writer, "last_completed_collective", completed);
    writer.end_dictionary();
  }
  writer.end_dictionary();
}

std::vector<Entry> entries_of(const std::vector<JobGroup>& groups, Rank rank) {
  std::vector<Entry> entries;
  for (std::size_t number = 0; number < groups.size(); ++number) {
    std::int64_t in_group = 0;
    for (const JobOperation& operation : groups[number].operations) {
      if (!is_in_flight_record(operation)) continue;
      ++in_group;
      if (const auto own = operation.on.find(rank); own != operation.on.end())
        entries.push_back({&operation, &own->second, &groups[number], number, in_group});
    }
  }
  std::ranges::stable_sort(entries, {}, [](const Entry& entry) { return entry.own->submitted_ns; });
  return entries;
}

}  // namespace

bool is_in_flight_record(const JobOperation& operation) {
  const bool is_join = std::ranges::any_of(
      operation.on, [](const auto& each) { return each.second.operation == Operation::join; });
  return !is_join && operation.forgotten.empty() && operation.joined.empty();
}

std::string flight_record(const std::vector<JobGroup>& groups, Rank rank) {
  const std::vector<Entry> entries = entries_of(groups, rank);
  PickleWriter writer;
  writer.begin_dictionary();
  put_text(writer, "version", kVersion);
  put_text(writer, "comm_lib_version", "rueda");
  put_groups(writer, groups, rank);
  put_status(writer, groups, entries);
  writer.put("entries");
  writer.begin_list();
  for (std::size_t i = 0; i < entries.size(); ++i)
    put_entry(writer, entries[i], rank, static_cast<std::int64_t>(i));
  writer.end_list();
  writer.end_dictionary();
  return writer.take();
}

}  // namespace rueda
