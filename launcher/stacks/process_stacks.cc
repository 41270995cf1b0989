// SPDX-License-Identifier: Apache-2.0
#include "launcher/stacks/process_stacks.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/stacks/bounded_child.h"
#include "launcher/stacks/native_stacks.h"
#include "launcher/stacks/process_snapshot.h"
#include "launcher/system/json_text.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using Frames = std::vector<std::string>;

constexpr std::size_t kMostFromChild = 4 << 20;
constexpr auto kToUnwind = 1s;
constexpr auto kMainThread = 300ms;  // for its signal handler
constexpr auto kOtherThread = 50ms;
constexpr auto kOtherThreads = 200ms;  // all of them

// Each line is an object, if it is whole.
std::map<pid_t, Frames> frames_in(const std::string& lines) {
  std::map<pid_t, Frames> threads;
  std::istringstream text(lines);
  for (std::string line; std::getline(text, line);) {
    const json thread = json::parse(line, nullptr, false);
    if (thread.is_object()) threads[thread.at("id").get<pid_t>()] = thread.at("frames").get<Frames>();
  }
  return threads;
}

std::map<pid_t, Frames> unwind(ProcessSnapshot& snapshot) {
  const auto wanted = std::ranges::count_if(snapshot.threads, &ProcessSnapshot::Thread::is_read);
  if (wanted == 0) return {};
  std::map<pid_t, Frames> threads = frames_in(output_of_child(
      [&](int descriptor) { write_native_stacks(snapshot, descriptor); }, kMostFromChild, kToUnwind));
  if (const auto missing = wanted - static_cast<std::ptrdiff_t>(threads.size()); missing > 0)
    snapshot.notes.push_back(fmt::format(
        "no functions of {} threads: their program's files took longer than 1 s, or are damaged", missing));
  return threads;
}

bool runs_python(const Frames& frames) {
  return std::ranges::any_of(frames,
                             [](std::string_view frame) { return frame.starts_with("_PyEval_EvalFrame"); });
}

// Purpose: asks the main thread for its Python stack, and notes what the process does at that moment. Lives
// for one answer.
class MainThread {
 public:
  // `python`: null where it is not known.
  MainThread(pid_t process, PythonStacks* python, const MomentReader& moment)
      : process_(process), python_(python), read_moment_(moment) {
    if (python_ != nullptr) problem_ = python_->prepare(process_);
  }

  // While it stands still.
  void look_at_stop() {
    was_stopped_ = true;
    moment = read_moment_();
    if (python_ != nullptr && problem_.empty()) is_sent_ = python_->send(process_);
  }

  // Where it was not stopped, it may have gone on between the two looks.
  PythonStacks::Answer ask() {
    if (python_ != nullptr && problem_.empty() && is_sent_) return python_->take(process_, kMainThread);
    if (!was_stopped_) moment = read_moment_();
    if (python_ == nullptr || !problem_.empty()) return {.frames = {}, .problem = problem_};
    PythonStacks::Answer answer = python_->ask(process_, kMainThread);
    if (!answer.frames.empty() && moment != read_moment_()) moment.reset();
    return answer;
  }

  std::optional<TrainingMoment> moment;

 private:
  const pid_t process_;
  PythonStacks* const python_;
  const MomentReader& read_moment_;
  std::string problem_;
  bool was_stopped_ = false, is_sent_ = false;
};

// Purpose: puts the answer together. Lives for one process.
class Answer {
 public:
  Answer(ProcessSnapshot snapshot, const MainThread& main)
      : snapshot_(std::move(snapshot)), moment_(main.moment) {
    for (const ProcessSnapshot::Thread& thread : snapshot_.threads)
      threads_.push_back({{"id", thread.facts.id},
                          {"name", thread.facts.name},
                          {"state", std::string(1, thread.facts.state)},
                          {"waits", thread.facts.waits}});
  }

  void take_main_thread(PythonStacks::Answer answer) { take(std::move(answer), 0); }

  void add_native() {
    const std::map<pid_t, Frames> frames = unwind(snapshot_);
    for (json& thread : threads_)
      if (const auto found = frames.find(thread.at("id").get<pid_t>()); found != frames.end())
        thread["frames"] = found->second;
  }

  // Others would see their system calls interrupted for nothing.
  void ask_python_threads(PythonStacks& python) {
    const auto until = std::chrono::steady_clock::now() + kOtherThreads;
    for (std::size_t i = 1; i < threads_.size() && std::chrono::steady_clock::now() < until; ++i)
      if (threads_[i].contains("frames") && runs_python(threads_[i].at("frames").get<Frames>()))
        take(python.ask(threads_[i].at("id").get<pid_t>(), kOtherThread), i);
  }

  // Without the last threads, if all are too long.
  std::string text() {
    std::size_t left_out = 0;
    while (true) {
      if (left_out > 0) {
        Frames notes = snapshot_.notes;
        notes.push_back(fmt::format("{} threads are left out: the answer would be too long", left_out));
        if (std::string short_enough = dump(notes); short_enough.size() <= kMostStacksBytes)
          return short_enough;
      } else if (std::string all = dump(snapshot_.notes); all.size() <= kMostStacksBytes) {
        return all;
      }
      const std::size_t drop = std::max<std::size_t>(1, threads_.size() / 4);
      for (std::size_t i = 0; i < drop && !threads_.empty(); ++i, ++left_out)
        threads_.erase(threads_.size() - 1);
    }
  }

 private:
  void take(PythonStacks::Answer answer, std::size_t index) {
    if (!answer.problem.empty()) note("no Python stack: " + answer.problem);
    if (!answer.frames.empty()) threads_[index]["python"] = std::move(answer.frames);
  }

  void note(std::string words) {
    if (std::ranges::find(snapshot_.notes, words) == snapshot_.notes.end())
      snapshot_.notes.push_back(std::move(words));
  }

  std::string dump(const Frames& notes) const {
    json answer{{"process", snapshot_.process}, {"threads", threads_}, {"notes", notes}};
    if (moment_) answer["phase"] = static_cast<int>(moment_->phase);
    if (moment_) answer["step"] = moment_->step;
    return json_text(answer);
  }

  ProcessSnapshot snapshot_;
  const std::optional<TrainingMoment> moment_;
  json threads_ = json::array();
};

}  // namespace

// Its signal waits for the main thread to go on, so that both stacks are of one moment.
std::string stacks_of(pid_t process, const std::shared_ptr<PythonStacks>& python,
                      const MomentReader& moment) {
  const bool knows_python = python && python->process() == process;
  MainThread main(process, knows_python ? python.get() : nullptr, moment);
  ProcessSnapshot snapshot = snapshot_of(process, has_native_stacks(), [&] { main.look_at_stop(); });
  if (!has_native_stacks())
    snapshot.notes.push_back("this build has no native stacks: it was made without libdw");
  const bool is_there = !snapshot.threads.empty();
  PythonStacks::Answer of_python = is_there ? main.ask() : PythonStacks::Answer();
  Answer answer(std::move(snapshot), main);
  if (!is_there) return answer.text();
  answer.take_main_thread(std::move(of_python));
  answer.add_native();
  if (knows_python) answer.ask_python_threads(*python);
  return answer.text();
}

}  // namespace rueda
