// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/stack_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/observe/training/training_page.h"
#include "launcher/system/printable.h"
#include "launcher/system/ranges.h"

namespace rueda {
namespace {

using nlohmann::json;
using Frames = std::vector<std::string>;

std::string text_at(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// The strings of a list; nothing where it is something else.
Frames texts_at(const json& object, const char* name) {
  Frames texts;
  const auto found = object.find(name);
  if (found == object.end() || !found->is_array()) return texts;
  for (const json& each : *found)
    if (each.is_string()) texts.push_back(each.get<std::string>());
  return texts;
}

json checked_thread(const json& thread) {
  json checked{
      {"id", thread.value("id", json(0)).is_number_integer() ? thread.value("id", json(0)) : json(0)},
      {"name", text_at(thread, "name")},
      {"state", text_at(thread, "state")},
      {"waits", text_at(thread, "waits")}};
  for (const char* kind : {"frames", "python"})
    if (Frames frames = texts_at(thread, kind); !frames.empty()) checked[kind] = std::move(frames);
  return checked;
}

// An answer may be any text.
json checked_answer(const std::string& text) {
  const json answer = json::parse(text, nullptr, false);
  if (!answer.is_object()) return {{"threads", json::array()}, {"notes", {"its answer is damaged"}}};
  json threads = json::array();
  if (const auto found = answer.find("threads"); found != answer.end() && found->is_array())
    for (const json& thread : *found)
      if (thread.is_object()) threads.push_back(checked_thread(thread));
  json checked{{"threads", std::move(threads)}, {"notes", texts_at(answer, "notes")}};
  if (const auto process = answer.find("process"); process != answer.end() && process->is_number_integer())
    checked["process"] = *process;
  const auto phase = answer.find("phase"), step = answer.find("step");
  if (phase != answer.end() && phase->is_number_unsigned() && phase->get<std::uint64_t>() < kPhaseCount)
    checked["phase"] = to_string(static_cast<Phase>(phase->get<std::uint8_t>()));
  if (step != answer.end() && step->is_number_unsigned()) checked["step"] = *step;
  return checked;
}

// What is known of a worker before it answers. A job that is not elastic has no others than ranks.
struct Worker {
  int number = 0;
  int rank = -1;  // -1: it is a spare
  std::string name;
  std::string host;
};
using Workers = std::map<int, Worker>;

Workers workers_in(const json& known) {
  Workers workers;
  for (const json& each : known) {
    const int number = each.at("worker").get<int>();
    workers[number] = {number, each.value("rank", -1), text_at(each, "name"), text_at(each, "host")};
  }
  return workers;
}

Worker worker_in(const Workers& workers, int number) {
  const auto found = workers.find(number);
  return found != workers.end() ? found->second : Worker{number, number, fmt::format("rank {}", number), ""};
}

// "rank 2 (worker 5)", "ranks 0-2,4", "worker 6, a spare", "workers 6-7, spares".
std::string words_for(const Workers& workers, const std::vector<int>& numbers) {
  if (numbers.size() == 1) return worker_in(workers, numbers.front()).name;
  std::vector<int> ranks, spares;
  for (const int number : numbers) {
    const Worker worker = worker_in(workers, number);
    (worker.rank >= 0 ? ranks : spares).push_back(worker.rank >= 0 ? worker.rank : number);
  }
  Frames words;
  if (!ranks.empty())
    words.push_back(fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", in_ranges(ranks)));
  if (!spares.empty())
    words.push_back(spares.size() == 1 ? fmt::format("worker {}, a spare", spares.front())
                                       : fmt::format("workers {}, spares", in_ranges(spares)));
  return fmt::format("{}", fmt::join(words, ", "));
}

// "rank 3", or "7 ranks: 0-2,4-7".
std::string name_of(const Workers& workers, const StackGroup& group) {
  const std::string words = words_for(workers, group.workers);
  if (group.workers.size() == 1 || group.is_spare) return words;
  return fmt::format("{} ranks: {}", group.workers.size(), words.substr(words.find(' ') + 1));
}

json as_json(const Workers& workers, const StackGroup& group) {
  json ranks = json::array();
  for (const int number : group.workers)
    if (!group.is_spare) ranks.push_back(worker_in(workers, number).rank);
  return {{"name", name_of(workers, group)},
          {"ranks", std::move(ranks)},
          {"kind", group.frames.empty() ? "none"
                   : group.is_python    ? "python"
                                        : "native"},
          {"frames", group.frames}};
}

// "wait", or "data (1), wait (7)".
std::string phases_of(const std::vector<const json*>& ranks) {
  std::map<std::string, int> counts;
  for (const json* rank : ranks)
    if (const std::string phase = text_at(*rank, "phase"); !phase.empty()) ++counts[phase];
  if (counts.size() == 1) return counts.begin()->first;
  Frames words;
  for (const auto& [phase, count] : counts) words.push_back(fmt::format("{} ({})", phase, count));
  return fmt::format("{}", fmt::join(words, ", "));
}

// "12", or "12 to 14".
std::string steps_of(const std::vector<const json*>& ranks) {
  std::optional<std::pair<std::uint64_t, std::uint64_t>> ends;
  for (const json* rank : ranks) {
    const auto step = rank->find("step");
    if (step == rank->end() || !step->is_number_unsigned()) continue;
    const auto number = step->get<std::uint64_t>();
    ends = ends ? std::pair(std::min(ends->first, number), std::max(ends->second, number))
                : std::pair(number, number);
  }
  if (!ends) return "";
  return ends->first == ends->second ? fmt::format("{}", ends->first)
                                     : fmt::format("{} to {}", ends->first, ends->second);
}

std::string number_of(std::ptrdiff_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::string indented(const json& frames, std::string_view indent) {
  std::string text;
  for (const json& frame : frames) text += fmt::format("{}{}\n", indent, frame.get<std::string>());
  return text;
}

// What is missing, and why.
Frames notes_of(const json& ranks, const std::vector<int>& silent, const Workers& workers) {
  Frames notes;
  if (!silent.empty()) notes.push_back("no answer from " + words_for(workers, silent));
  std::map<std::string, std::vector<int>> by_note;
  for (const json& rank : ranks)
    for (const std::string& note : texts_at(rank, "notes"))
      by_note[note].push_back(rank.at("worker").get<int>());
  for (const auto& [note, numbers] : by_note)
    notes.push_back(fmt::format("{}: {}", words_for(workers, numbers), note));
  return notes;
}

std::string text_of_group(const json& group) {
  Frames where;
  if (const std::string phase = text_at(group, "phase"); !phase.empty()) where.push_back(phase);
  if (const std::string step = text_at(group, "step"); !step.empty()) where.push_back("step " + step);
  std::string text = group.at("name").get<std::string>();
  text += where.empty() ? "\n" : fmt::format(" ({})\n", fmt::join(where, ", "));
  if (group.at("frames").empty()) return text + "    no stack\n";
  return text + indented(group.at("frames"), "    ");
}

std::string text_of_rank(const json& rank) {
  std::string text = fmt::format("\n{}", text_at(rank, "name"));
  if (rank.contains("process")) text += fmt::format(", process {}", rank.at("process").get<std::int64_t>());
  if (const std::string host = text_at(rank, "host"); !host.empty()) text += " on " + host;
  text += "\n";
  for (const json& thread : rank.at("threads")) {
    const std::string waits = text_at(thread, "waits");
    text += fmt::format("  thread {} {} ({}{}{})\n", thread.at("id").get<std::int64_t>(),
                        text_at(thread, "name"), text_at(thread, "state"), waits.empty() ? "" : ", ", waits);
    if (thread.contains("python")) text += "    Python:\n" + indented(thread.at("python"), "      ");
    if (thread.contains("frames")) text += "    native:\n" + indented(thread.at("frames"), "      ");
  }
  return text;
}

}  // namespace

std::vector<StackGroup> stack_groups(const json& ranks) {
  std::map<std::tuple<bool, bool, Frames>, StackGroup> by_frames;
  for (const json& rank : ranks) {
    static const json kNone = json::object();
    const json& main = rank.at("threads").empty() ? kNone : rank.at("threads").front();
    const bool is_python = main.contains("python"), is_spare = !rank.contains("rank");
    Frames frames = texts_at(main, is_python ? "python" : "frames");
    StackGroup& group = by_frames[std::tuple(is_spare, is_python, frames)];
    group.is_spare = is_spare;
    group.is_python = is_python;
    group.frames = std::move(frames);
    group.workers.push_back(rank.at("worker").get<int>());
  }
  std::vector<StackGroup> groups;
  for (auto& [key, group] : by_frames) {
    std::ranges::sort(group.workers);
    groups.push_back(std::move(group));
  }
  std::ranges::sort(groups, {}, [](const StackGroup& group) {
    return std::tuple(group.is_spare, group.workers.size(), group.workers.front());
  });
  return groups;
}

json stacks_of_ranks(const std::map<int, std::string>& answers, const std::vector<int>& silent,
                     const json& known) {
  const Workers workers = workers_in(known);
  json ranks = json::array();
  std::map<int, std::size_t> index_of;
  for (const auto& [number, text] : answers) {
    const Worker worker = worker_in(workers, number);
    json rank = checked_answer(text);
    if (worker.rank >= 0) rank["rank"] = worker.rank;
    rank["worker"] = number;
    rank["name"] = worker.name;
    if (!worker.host.empty()) rank["host"] = worker.host;
    index_of[number] = ranks.size();
    ranks.push_back(std::move(rank));
  }
  json groups = json::array();
  for (const StackGroup& group : stack_groups(ranks)) {
    std::vector<const json*> members;
    for (const int number : group.workers) members.push_back(&ranks[index_of.at(number)]);
    json entry = as_json(workers, group);
    entry["phase"] = phases_of(members);
    entry["step"] = steps_of(members);
    groups.push_back(std::move(entry));
  }
  Frames notes = notes_of(ranks, silent, workers);
  Frames names;
  for (const int number : silent) names.push_back(worker_in(workers, number).name);
  return {{"groups", std::move(groups)},
          {"ranks", std::move(ranks)},
          {"silent", std::move(names)},
          {"notes", std::move(notes)}};
}

std::string stacks_text(const json& stacks, bool verbose) {
  const json& groups = stacks.at("groups");
  const auto is_of_ranks = [](const json& group) { return !group.at("ranks").empty(); };
  const auto has_rank = [](const json& rank) { return rank.contains("rank"); };
  std::string text = fmt::format("{}: the main threads are at {}\n",
                                 number_of(std::ranges::count_if(stacks.at("ranks"), has_rank), "rank"),
                                 number_of(std::ranges::count_if(groups, is_of_ranks), "place"));
  for (const json& group : groups) text += "\n" + text_of_group(group);
  for (const json& note : stacks.at("notes"))
    text += fmt::format("{}{}\n", &note == &stacks.at("notes").front() ? "\n" : "", note.get<std::string>());
  if (verbose)
    for (const json& rank : stacks.at("ranks")) text += text_of_rank(rank);
  return printable(std::move(text), "\n");
}

}  // namespace rueda
