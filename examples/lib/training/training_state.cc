// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/training_state.h"

#include <ATen/ops/tensor.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include <rueda/torch.h>
#include "core/base/files/whole_file.h"
#include "core/base/system/descriptor.h"
#include "examples/lib/training/checkpoint_folder.h"
#include "examples/lib/training/tensor_file.h"
#include "frameworks/torch/collectives/agreement.h"

namespace rueda::examples {
namespace {

namespace fs = std::filesystem;

// A loss is known before the system has freed the memory of the process, and then its lock.
constexpr auto kEndOfALostProcess = std::chrono::seconds(30);
constexpr const char* kHistory = "history.safetensors";
constexpr const char* kArchives = "optimizer*.pt";
const std::string kPart = "part.";

at::Tensor doubles(const std::vector<double>& values) {
  return at::tensor(values, at::TensorOptions().dtype(at::kDouble));
}

std::vector<double> doubles(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}

void write_history(const fs::path& file, const StepHistory& history) {
  std::vector<std::pair<std::string, at::Tensor>> tensors{{"loss", doubles(history.losses)},
                                                          {"learning_rate", doubles(history.learning_rates)},
                                                          {"seconds", doubles(history.seconds)},
                                                          {"samples", doubles(history.samples)}};
  for (const auto& [name, values] : history.parts) tensors.emplace_back(kPart + name, doubles(values));
  write_tensors(file, tensors);
}

// Throws std::runtime_error naming a column that is missing, or of another length.
StepHistory read_history(const fs::path& file, std::int64_t steps) {
  const auto tensors = read_tensors(file);
  const auto column = [&](const std::string& name) {
    const auto found = tensors.find(name);
    const bool good = found != tensors.end() && found->second.scalar_type() == at::kDouble &&
                      found->second.numel() == steps;
    if (!good) throw std::runtime_error(fmt::format("{}: has no {} of {} steps", file.string(), name, steps));
    return doubles(found->second);
  };
  StepHistory history{.losses = column("loss"),
                      .learning_rates = column("learning_rate"),
                      .seconds = column("seconds"),
                      .samples = column("samples")};
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(kPart)) history.parts.emplace_back(name.substr(kPart.size()), column(name));
  }
  history.averaged = history.losses.size();
  return history;
}

// Everything of a FoundCheckpoint, to be sent to all ranks as CBOR: that keeps numbers which are not finite,
// and paths as they are.
nlohmann::json to_json(const FoundCheckpoint& found) {
  const StepHistory& history = found.position.history;
  nlohmann::json points = nlohmann::json::array();
  for (const EvaluationPoint& point : found.evaluations) points.push_back({point.step, point.metrics});
  return {{"folder", found.folder.string()},
          {"format", found.format},
          {"ranks", found.ranks},
          {"step", found.position.step},
          {"samples", found.position.samples},
          {"losses", history.losses},
          {"rates", history.learning_rates},
          {"seconds", history.seconds},
          {"step_samples", history.samples},
          {"parts", history.parts},
          {"evaluations", std::move(points)}};
}

FoundCheckpoint found_in(const nlohmann::json& json) {
  FoundCheckpoint found{
      .folder = json.at("folder").get<std::string>(), .format = json.at("format"), .ranks = json.at("ranks")};
  found.position.step = json.at("step");
  found.position.samples = json.at("samples");
  StepHistory& history = found.position.history;
  history.losses = json.at("losses").get<std::vector<double>>();
  history.learning_rates = json.at("rates").get<std::vector<double>>();
  history.seconds = json.at("seconds").get<std::vector<double>>();
  history.samples = json.at("step_samples").get<std::vector<double>>();
  history.parts = json.at("parts").get<decltype(history.parts)>();
  history.averaged = history.losses.size();
  for (const nlohmann::json& point : json.at("evaluations"))
    found.evaluations.push_back({point.at(0), point.at(1).get<NamedNumbers>()});
  return found;
}

void write_whole(const fs::path& path, const std::string& bytes) {
  WholeFile file(path);
  file.write(std::as_bytes(std::span(bytes)));
  file.commit();
}

// The bytes of rank `from`, on rank `to`; nothing elsewhere. Collective.
std::string moved(const std::string& bytes, Rank from, Rank to) {
  std::vector<std::int64_t> splits(static_cast<std::size_t>(size()), 0);
  const bool gives = rank() == from;
  if (gives) splits[static_cast<std::size_t>(to)] = static_cast<std::int64_t>(bytes.size());
  const std::int64_t rows = gives ? static_cast<std::int64_t>(bytes.size()) : 0;
  Handle handle =
      alltoall_async("training.state", ConstTensorView(bytes.data(), DataType::uint8, {rows}), splits);
  handle.wait();
  const TensorView& came = handle.output();
  return {static_cast<const char*>(came.data), static_cast<std::size_t>(came.elements())};
}

// The optimizer's state of all ranks, or of one. Archives of torch::save were written by older versions.
std::string state_file(std::optional<Rank> rank, int format = kCheckpointFormat) {
  return fmt::format("optimizer{}.{}", rank ? fmt::format("-{}", *rank) : "",
                     format == kFormatOfArchives ? "pt" : "safetensors");
}

// The folder in which --resume, which must be given, looks for checkpoints.
fs::path resume_folder(const TrainOptions& options) {
  return options.resume->empty() ? options.checkpoints() : *options.resume;
}

// A folder that has other files than checkpoints is one named by mistake, and not that of a first start.
// Files of this run are no mistake, nor is an unfinished checkpoint, which has a hidden name.
void check_holds_nothing_else(const fs::path& folder, const TrainOptions& options) {
  std::error_code absent;
  if (fs::equivalent(folder, options.output, absent) || fs::equivalent(folder, options.checkpoints(), absent))
    return;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, absent)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.')) continue;
    throw std::runtime_error(fmt::format(
        "--resume: {} holds no checkpoint of a training, but {}; name a checkpoint, or a folder of them",
        folder.string(), name));
  }
}

}  // namespace

std::string bytes_of(const FoundCheckpoint& found) {
  std::string bytes;
  nlohmann::json::to_cbor(to_json(found), bytes);
  return bytes;
}

FoundCheckpoint found_of(const std::string& bytes) { return found_in(nlohmann::json::from_cbor(bytes)); }

TrainingState::TrainingState(Task& task, const TrainOptions& options) : task_(task), options_(options) {}

// The settings that must be equal for one run to use the state of another.
std::vector<std::string> TrainingState::settings() const {
  std::vector<std::string> lines{fmt::format("--task {}", options_.task),
                                 fmt::format("--seed {}", options_.seed),
                                 fmt::format("--optimizer {}", optimizer_word(options_)),
                                 fmt::format("--dtype {}", dtype_word(options_)),
                                 fmt::format("--sync {}", sync_words(options_)),
                                 fmt::format("--shard {}", options_.shard ? "yes" : "no")};
  for (const std::string& line : task_.settings()) lines.push_back(as_utf8(line));  // paths are in them
  return lines;
}

void TrainingState::check_settings(const fs::path& folder, const std::vector<std::string>& saved) const {
  const std::vector<std::string> mine = settings();
  for (std::size_t i = 0; i < std::max(mine.size(), saved.size()); ++i) {
    const std::string theirs = i < saved.size() ? saved[i] : "nothing";
    const std::string ours = i < mine.size() ? mine[i] : "nothing";
    if (ours == theirs) continue;
    throw std::runtime_error(
        fmt::format("{} was written with {}, and this run has {}; go on with what it was "
                    "written with, or begin anew in another --output",
                    folder.string(), theirs, ours));
  }
}

std::vector<fs::path> checkpoints_to_resume(const TrainOptions& options) {
  const fs::path asked = resume_folder(options);
  if (fs::exists(asked) && !fs::is_directory(asked))
    throw std::runtime_error(
        fmt::format("--resume: {} is not a folder; name a checkpoint, or a folder of them", asked.string()));
  if (is_checkpoint(asked)) return {asked};
  const fs::path below = asked / "checkpoints";
  const fs::path root = fs::is_directory(below) ? below : asked;
  std::vector<fs::path> found = checkpoints_in(root);
  if (found.empty()) check_holds_nothing_else(root, options);
  return found;
}

void check_nothing_is_in(const fs::path& checkpoints) {
  const std::vector<fs::path> there = checkpoints_in(checkpoints);
  if (there.empty()) return;
  throw std::runtime_error(
      fmt::format("{} is of an earlier run: go on with --resume, or choose another --output, or remove {}",
                  there.front().string(), checkpoints.string()));
}

// The bytes are as they were written, but perhaps not by this program.
FoundCheckpoint TrainingState::read(const fs::path& folder, const CheckpointFacts& facts) {
  try {
    FoundCheckpoint found{.folder = folder, .format = facts.format, .ranks = facts.ranks};
    found.position = {facts.step, facts.samples, read_history(folder / kHistory, facts.step)};
    found.evaluations = facts.evaluations;
    task_.load(folder);
    return found;
  } catch (const std::exception& error) {
    throw DamagedCheckpoint(error.what());
  }
}

// Of two runs in one folder each would remove the other's new files. `timeout`: for a process that ends.
void TrainingState::lock_output(std::chrono::milliseconds timeout) {
  make_folder(options_.output);
  const fs::path file = options_.output / ".lock";
  lock_ = Descriptor(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (lock_.number() < 0) fail_on_file("write", file, errno);
  constexpr auto kPause = std::chrono::milliseconds(5);
  const auto is_taken = [&] {
    return ::flock(lock_.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  };
  bool taken = is_taken();
  for (; taken && timeout > kPause; taken = is_taken()) {
    std::this_thread::sleep_for(kPause);
    timeout -= kPause;
  }
  if (taken) {
    throw std::runtime_error(fmt::format(
        "another run writes to {}: wait for its end, or choose another --output", options_.output.string()));
  }
}

void TrainingState::check_holds_no_code(const fs::path& folder, const CheckpointFacts& facts) const {
  if (facts.format != kFormatOfArchives || options_.allow_code) return;
  throw std::runtime_error(fmt::format(
      "--resume: {} has the optimizer's state as an archive of torch::save ({}), which can run code while it "
      "is loaded. If you trust its writer, resume once with --allow-code yes: the next checkpoint is data "
      "only",
      folder.string(), kArchives));
}

// On rank 0.
std::optional<FoundCheckpoint> TrainingState::find() {
  if (!options_.resume) {
    check_nothing_is_in(options_.checkpoints());
    return std::nullopt;
  }
  const fs::path asked = resume_folder(options_);
  const std::vector<fs::path> candidates = checkpoints_to_resume(options_);
  for (const fs::path& folder : candidates) {
    try {
      const CheckpointFacts facts = check_checkpoint(folder);
      check_settings(folder, facts.settings);
      check_holds_no_code(folder, facts);
      return read(folder, facts);
    } catch (const DamagedCheckpoint& damage) {
      words_.push_back(fmt::format("passed over: {}", damage.what()));
    }
  }
  if (candidates.empty()) {  // a job's command line is the same for its first start
    check_nothing_is_in(options_.checkpoints());
    words_.push_back(fmt::format("--resume: no checkpoint in {}, training begins anew", asked.string()));
    return std::nullopt;
  }
  throw std::runtime_error(fmt::format("--resume: {} has no checkpoint that is whole{}{}", asked.string(),
                                       words_.empty() ? "" : ": ", fmt::join(words_, "; ")));
}

std::optional<FoundCheckpoint> TrainingState::resume() {
  const std::string bytes = broadcast_made(
      [&] {
        lock_output({});
        const std::optional<FoundCheckpoint> found = find();
        if (found) set_aside_others(*found);
        return found ? bytes_of(*found) : std::string();
      },
      0, "training.resume", "training", default_runtime());
  if (bytes.empty()) return std::nullopt;
  return found_of(bytes);
}

void TrainingState::take_over() {
  all_use(
      [&] {
        if (rank() == 0) lock_output(kEndOfALostProcess);
      },
      "training.take_over", "training", default_runtime());
}

void TrainingState::load_optimizer(const FoundCheckpoint& found, StepOptimizer& optimizer) {
  if (options_.compression == Compression::topk || options_.low_rank > 0)
    words_.emplace_back("what earlier gradients had left out (topk, low-rank) is no part of a checkpoint");
  const auto load = [&](const std::string& bytes) {
    all_use([&] { optimizer.load_state(bytes, {.allow_code = options_.allow_code}); }, "training.optimizer",
            fmt::format("the optimizer's state in {}", found.folder.string()), default_runtime());
  };
  if (!optimizer.has_own_state()) {
    return load(broadcast_made([&] { return read_file(found.folder / state_file({}, found.format)); }, 0,
                               "training.optimizer.bytes", found.folder.string(), default_runtime()));
  }
  if (found.ranks != size()) {
    words_.push_back(
        fmt::format("{} ranks have written it: rank r of {} goes on with the optimizer state of "
                    "rank r modulo {}",
                    found.ranks, size(), found.ranks));
  }
  std::string mine;
  for (Rank to = 0; to < size(); ++to) {
    std::string bytes;
    all_use(
        [&] {
          if (rank() != 0) return;
          bytes = read_file(found.folder / state_file(static_cast<Rank>(to % found.ranks), found.format));
        },
        "training.optimizer.read", found.folder.string(), default_runtime());
    std::string came = moved(bytes, 0, to);
    if (rank() == to) mine = std::move(came);
  }
  load(mine);
}

fs::path TrainingState::save(const TrainingPosition& position, StepOptimizer& optimizer,
                             const std::vector<EvaluationPoint>& evaluations) {
  std::string failure;
  const auto attempt = [&](const auto& action) {
    if (failure.empty()) failure = failure_of(action);
  };
  const bool writes = rank() == 0;
  std::unique_ptr<CheckpointWriter> writer;
  attempt([&] {
    if (!writes) return;
    writer = std::make_unique<CheckpointWriter>(options_.checkpoints(), position.step);
    task_.save(writer->folder());
    write_history(writer->folder() / kHistory, position.history);
  });
  std::string mine;
  // By all, whatever has failed before: it is collective.
  const std::string unsaved = failure_of([&] { mine = optimizer.save_state(); });
  if (failure.empty()) failure = unsaved;
  if (!optimizer.has_own_state()) {
    attempt([&] {
      if (writes) write_whole(writer->folder() / state_file({}), mine);
    });
  } else {
    for (Rank from = 0; from < size(); ++from) {  // one at a time: rank 0 has no memory for all
      const std::string bytes = moved(mine, from, 0);
      attempt([&] {
        if (writes) write_whole(writer->folder() / state_file(from), bytes);
      });
    }
  }
  fs::path folder;
  attempt([&] {
    if (!writes) return;
    const CheckpointFacts facts{.step = position.step,
                                .samples = position.samples,
                                .ranks = size(),
                                .settings = settings(),
                                .evaluations = evaluations};
    folder = writer->commit(facts, options_.keep);
  });
  const std::string failures = failures_of_all("training.checkpoint", failure, default_runtime());
  if (!failures.empty())
    throw std::runtime_error(fmt::format("no checkpoint after step {}: {}", position.step, failures));
  return folder;
}

// On rank 0: sets aside checkpoints that would be taken for newer than those of this run.
void TrainingState::set_aside_others(const FoundCheckpoint& found) {
  const fs::path own = options_.checkpoints();
  const std::vector<fs::path> there = checkpoints_in(own);
  std::error_code error;
  const bool is_own = fs::equivalent(found.folder.parent_path(), own, error);
  if (!is_own && !there.empty()) {
    throw std::runtime_error(fmt::format("{} is of another run than {}: choose another --output",
                                         there.front().string(), found.folder.string()));
  }
  for (const fs::path& folder : there) {
    if (fs::equivalent(folder, found.folder, error)) break;
    const fs::path aside = own / ("aside-" + folder.filename().string());
    fs::remove_all(aside);
    fs::rename(folder, aside);
    words_.push_back(fmt::format("{} is now {}", folder.string(), aside.filename().string()));
  }
}

}  // namespace rueda::examples
