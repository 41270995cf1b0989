// SPDX-License-Identifier: Apache-2.0
#include "core/observe/trace_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

namespace rueda {
namespace {

// Any bytes as a JSON string; what is no UTF-8 is replaced.
std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& letter : result) {
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  }
  return result;
}

// "allreduce.x" for the tensor 'x', and for the tensor 'allreduce.x'.
std::string label_of(const TraceEvent& event) {
  const std::string_view operation = to_string(event.operation);
  const bool said =
      event.name().starts_with(operation) && event.name().substr(operation.size()).starts_with('.');
  return said ? std::string(event.name()) : fmt::format("{}.{}", operation, event.name());
}

}  // namespace

std::string phase_name(std::string_view phase) {
  // First words of Work::phase() that have a usual name.
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kNames{{
      {"packing", "PACK"},
      {"reducing", "REDUCE"},
      {"unpacking", "UNPACK"},
      {"gathering", "GATHER"},
      {"copying", "COPY"},
      {"exchanging", "EXCHANGE"},
      {"sending", "SEND"},
      {"receiving", "RECEIVE"},
  }};
  const std::string_view first = phase.substr(0, phase.find(' '));
  auto found = std::ranges::find(kNames, first, &std::pair<std::string_view, std::string_view>::first);
  return found == kNames.end() ? upper(phase) : std::string(found->second);
}

std::string TraceJson::begin(std::uint64_t session) const {
  const Rank rank = identity_.rank;
  auto about = [&](std::string_view name, std::string_view arguments) {
    return fmt::format(
        ",\n"
        R"({{"name":"{}","ph":"M","pid":{},"tid":0,"args":{{{}}}}})",
        name, rank, arguments);
  };
  const std::string process =
      fmt::format("rank {} on {} (process {})", rank, identity_.host, identity_.process_id);
  return about("rueda_timeline",
               fmt::format(R"("start_time_since_epoch_in_micros":{},"session":{},"rank":{},"size":{},)"
                           R"("host":{},"process_id":{},"clock_offset_ns":{})",
                           identity_.epoch_us, session, rank, identity_.size, json_text(identity_.host),
                           identity_.process_id, identity_.clock_offset_ns)) +
         about("process_name", fmt::format(R"("name":{})", json_text(process))) +
         about("process_sort_index", fmt::format(R"("sort_index":{})", rank)) +
         about("thread_name", R"("name":"background thread")");
}

std::string TraceJson::end(std::uint64_t lost) const {
  return fmt::format(
      ",\n"
      R"({{"name":"rueda_timeline_end","ph":"M","pid":{},"tid":0,"args":{{"lost":{}}}}})",
      identity_.rank, lost);
}

// Microseconds with three decimals, exactly.
void TraceJson::put_time(std::int64_t time_ns, std::string& text) const {
  const std::int64_t ns = time_ns + identity_.clock_offset_ns - identity_.origin_ns;
  const std::uint64_t size = ns < 0 ? 0 - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
  fmt::format_to(std::back_inserter(text), R"("ts":{}{}.{:03})", ns < 0 ? "-" : "", size / 1000, size % 1000);
}

// These leave the object open, for arguments; `name` is JSON.
void TraceJson::put_begin(const Flight& flight, std::string_view name, std::int64_t time_ns,
                          std::string& text) const {
  fmt::format_to(std::back_inserter(text),
                 ",\n"
                 R"({{"name":{},"ph":"B","pid":{},"tid":{},)",
                 name, identity_.rank, flight.row);
  put_time(time_ns, text);
}

void TraceJson::put_end(const Flight& flight, std::int64_t time_ns, std::string& text) const {
  fmt::format_to(std::back_inserter(text),
                 ",\n"
                 R"({{"ph":"E","pid":{},"tid":{},)",
                 identity_.rank, flight.row);
  put_time(time_ns, text);
}

void TraceJson::put_moment(std::string_view name, const TraceEvent& event, std::string& text) const {
  fmt::format_to(std::back_inserter(text),
                 ",\n"
                 R"({{"name":"{}","ph":"i","s":"p","pid":{},"tid":0,)",
                 name, identity_.rank);
  put_time(event.time_ns, text);
}

void TraceJson::add(const TraceEvent& event, std::string& text) {
  if (event.lost_before != 0) forget_all(event, text);
  switch (event.kind) {
    case TraceEvent::Kind::submitted: submitted(event, text); break;
    case TraceEvent::Kind::planned: planned(event, text); break;
    case TraceEvent::Kind::phase: enter_phase(event, text); break;
    case TraceEvent::Kind::ended: ended(event, text); break;
    case TraceEvent::Kind::cycle:
      put_moment("CYCLE_START", event, text);
      text += '}';
      break;
  }
}

int TraceJson::row_for(const std::string& label, bool& shared, std::string& text) {
  if (auto found = rows_.find(label); found != rows_.end()) return found->second;
  shared = rows_.size() >= kMostRows;
  if (shared && !free_shared_rows_.empty()) {
    const int row = free_shared_rows_.back();
    free_shared_rows_.pop_back();
    return row;
  }
  const int row = next_row_++;
  if (!shared) rows_.emplace(label, row);
  fmt::format_to(std::back_inserter(text),
                 ",\n"
                 R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})",
                 identity_.rank, row, json_text(shared ? "more tensors" : label));
  return row;
}

void TraceJson::submitted(const TraceEvent& event, std::string& text) {
  const std::string label = label_of(event);
  bool shared = false;
  const int row = row_for(label, shared, text);
  Flight& flight = flights_[event.ticket];
  flight = {row, event.operation, 1, 0, event.bytes, shared};
  put_begin(flight, fmt::format("\"NEGOTIATE_{}\"", upper(to_string(event.operation))), event.time_ns, text);
  if (shared) {
    fmt::format_to(std::back_inserter(text), R"(,"args":{{"tensor":{}}}}})", json_text(label));
  } else {
    text += '}';
  }
}

void TraceJson::planned(const TraceEvent& event, std::string& text) {
  auto found = flights_.find(event.ticket);
  if (found == flights_.end()) return;  // submitted before the timeline was started
  Flight& flight = found->second;
  flight.plan = event.plan;
  plans_[event.plan].push_back(event.ticket);
  put_end(flight, event.time_ns, text);
  text += '}';
  put_begin(flight, fmt::format("\"{}\"", upper(to_string(flight.operation))), event.time_ns, text);
  fmt::format_to(std::back_inserter(text), R"(,"args":{{"plan":{},"bytes":{}}}}})", event.plan, flight.bytes);
  put_begin(flight, "\"WAITING\"", event.time_ns, text);
  text += '}';
  flight.open = 2;
}

const std::string& TraceJson::name_of(std::string_view phase) {
  std::string& name = phase_names_[phase];
  if (name.empty()) name = json_text(phase_name(phase));
  return name;
}

void TraceJson::enter_phase(const TraceEvent& event, std::string& text) {
  auto plan = plans_.find(event.plan);
  if (plan == plans_.end()) return;
  const std::string& name = name_of(event.phase);
  for (std::uint64_t ticket : plan->second) {
    const Flight& flight = flights_.at(ticket);
    put_end(flight, event.time_ns, text);
    text += '}';
    put_begin(flight, name, event.time_ns, text);
    text += '}';
  }
}

void TraceJson::ended(const TraceEvent& event, std::string& text) {
  auto found = flights_.find(event.ticket);
  if (found == flights_.end()) return;
  const Flight flight = found->second;
  for (int left = flight.open; left > 0; --left) {
    put_end(flight, event.time_ns, text);
    text += left == 1 && !event.ok ? R"(,"args":{"failed":true}})" : "}";
  }
  if (auto plan = plans_.find(flight.plan); plan != plans_.end()) {
    std::erase(plan->second, event.ticket);
    if (plan->second.empty()) plans_.erase(plan);
  }
  if (flight.shared_row) free_shared_rows_.push_back(flight.row);
  flights_.erase(found);
}

// Events were lost, and nobody knows which: what is open ends here, and later events of it are not shown.
void TraceJson::forget_all(const TraceEvent& event, std::string& text) {
  for (const auto& [ticket, flight] : flights_) {
    for (int left = flight.open; left > 0; --left) {
      put_end(flight, event.time_ns, text);
      text += '}';
    }
    if (flight.shared_row) free_shared_rows_.push_back(flight.row);
  }
  flights_.clear();
  plans_.clear();
  put_moment("EVENTS_LOST", event, text);
  fmt::format_to(std::back_inserter(text), R"(,"args":{{"count":{}}}}})", event.lost_before);
}

}  // namespace rueda
