// SPDX-License-Identifier: Apache-2.0
// JobView as JSON, and as text for Prometheus.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "launcher/view/job_view.h"

namespace rueda {
namespace {

using nlohmann::json;

constexpr auto kBetweenPlans = std::chrono::seconds(1);
constexpr double kLongPhase = 0.2;  // seconds: an update
constexpr double kSilent = 2.5;     // seconds: older news of a rank are not of now

json as_json(const LineFacts& line, int culprit) {
  json entry{{"state", name_of(line.state)}, {"text", in_words(line)}};
  if (culprit >= 0) entry["rank"] = culprit;
  if (line.pause_s > 0) entry["pause"] = true;
  return entry;
}

json as_json(const Progress& progress) {
  const auto rounded = [](double value) { return std::round(value * 1e3) / 1e3; };
  json entry{{"step", progress.step},
             {"total", progress.total},
             {"samples_per_s", rounded(progress.samples_per_s)},
             {"step_ms", rounded(progress.step_ms)},
             {"wait_ms", rounded(progress.wait_ms)}};
  if (progress.ends_at > 0) entry["ends_at"] = progress.ends_at;
  return entry;
}

template <class List, class Make>
json list_of(const List& items, Make make) {
  json list = json::array();
  for (const auto& item : items) list.push_back(make(item));
  return list;
}

// As the text format of Prometheus has it.
std::string label_value(const std::string& text) {
  std::string value;
  for (const char letter : text) {
    if (letter == '\\' || letter == '"' || letter == '\n') value += '\\';
    value += letter == '\n' ? 'n' : letter;
  }
  return value;
}

// A family of samples, each with its labels.
class Family {
 public:
  Family(std::string name, const std::string& help, const std::string& type)
      : name_(std::move(name)), text_(fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name_, help, type)) {}

  void add(const std::string& labels, double value) {
    if (std::isfinite(value)) samples_ += fmt::format("{}{} {}\n", name_, labels, value);
  }
  // Empty without samples.
  std::string text() const { return samples_.empty() ? "" : text_ + samples_; }

 private:
  std::string name_, text_, samples_;
};

std::string one_gauge(const std::string& name, const std::string& help, double value) {
  Family family(name, help, "gauge");
  family.add("", value);
  return family.text();
}

std::string metrics_of(const std::vector<HostView>& hosts) {
  Family busy("rueda_host_cpu_busy_ratio", "Busy share of the host's processors.", "gauge");
  Family used("rueda_host_memory_used_bytes", "Memory in use on the host.", "gauge");
  Family memory("rueda_host_memory_bytes", "Memory of the host.", "gauge");
  Family sent("rueda_card_sent_bytes_total", "Bytes that a network card has sent.", "counter");
  Family received("rueda_card_received_bytes_total", "Bytes that a network card has received.", "counter");
  Family gpu_busy("rueda_gpu_busy_ratio", "Share of the time in which something runs on the GPU.", "gauge");
  Family gpu_used("rueda_gpu_memory_used_bytes", "Memory in use on the GPU.", "gauge");
  Family gpu_celsius("rueda_gpu_temperature_celsius", "Temperature of the GPU.", "gauge");
  for (const HostView& host : hosts) {
    if (!host.is_heard) continue;
    const std::string labels = fmt::format("host=\"{}\"", label_value(host.name));
    busy.add("{" + labels + "}", host.load.busy);
    used.add("{" + labels + "}", static_cast<double>(host.load.memory_used));
    memory.add("{" + labels + "}", static_cast<double>(host.load.memory_bytes));
    for (const agents::HostLoad::Card& card : host.load.cards) {
      const std::string of_card = fmt::format("{{{},card=\"{}\"}}", labels, label_value(card.name));
      sent.add(of_card, static_cast<double>(card.sent_bytes));
      received.add(of_card, static_cast<double>(card.received_bytes));
    }
    for (std::size_t i = 0; i < host.load.gpus.size(); ++i) {
      const GpuLoad& gpu = host.load.gpus[i];
      const std::string of_gpu = fmt::format("{{{},gpu=\"{}\"}}", labels, i);
      if (gpu.busy_percent != GpuLoad::kUnknown) gpu_busy.add(of_gpu, gpu.busy_percent / 100.0);
      if (gpu.celsius != GpuLoad::kUnknown) gpu_celsius.add(of_gpu, gpu.celsius);
      gpu_used.add(of_gpu, static_cast<double>(gpu.memory_used));
    }
  }
  return busy.text() + used.text() + memory.text() + sent.text() + received.text() + gpu_busy.text() +
         gpu_used.text() + gpu_celsius.text();
}

// By rank of the present generation.
std::string metrics_of(const std::map<int, const RankView*>& ranks) {
  Family steps("rueda_job_rank_step", "Steps that a rank has ended.", "gauge");
  Family resident("rueda_job_rank_resident_bytes", "Memory of a rank's process.", "gauge");
  Family cpu("rueda_job_rank_cpu_seconds_total", "Processor time of a rank's process.", "counter");
  for (const auto& [number, rank] : ranks) {
    if (!rank->is_heard) continue;
    const std::string labels = fmt::format("{{rank=\"{}\"}}", number);
    const agents::Observed& news = rank->observed;
    if (news.has_training) steps.add(labels, static_cast<double>(news.step));
    resident.add(labels, static_cast<double>(news.resident_bytes));
    cpu.add(labels, news.cpu_seconds);
  }
  return steps.text() + resident.text() + cpu.text();
}

std::string metrics_of(const std::vector<PlanSum>& sums) {
  Family plans("rueda_job_route_plans_total", "Plans that ranks have carried out.", "counter");
  Family tensors("rueda_job_route_tensors_total", "Tensors of these Plans.", "counter");
  Family bytes("rueda_job_route_bytes_total", "Bytes of these tensors.", "counter");
  Family seconds("rueda_job_route_seconds_total", "Time of the Works of these Plans.", "counter");
  Family predicted("rueda_job_route_predicted_seconds", "Mean time by the cost model.", "gauge");
  for (const PlanSum& sum : sums) {
    const RouteKind& kind = sum.kind;
    const std::string labels = fmt::format(
        "{{operation=\"{}\",dtype=\"{}\",most_bytes=\"{}\",backend=\"{}\",inside=\"{}\",between=\"{}\",sent_"
        "as="
        "\"{}\"}}",
        to_string(kind.operation), to_string(kind.dtype), std::uint64_t{1} << kind.size_class,
        label_value(kind.backend), label_value(kind.inside), label_value(kind.between),
        to_string(kind.sent_as));
    plans.add(labels, static_cast<double>(sum.count.plans));
    tensors.add(labels, static_cast<double>(sum.count.tensors));
    bytes.add(labels, static_cast<double>(sum.count.bytes));
    seconds.add(labels, static_cast<double>(sum.count.nanoseconds) * 1e-9);
    if (sum.count.predicted_plans > 0)
      predicted.add(labels, static_cast<double>(sum.count.predicted) * 1e-9 /
                                static_cast<double>(sum.count.predicted_plans));
  }
  return plans.text() + tensors.text() + bytes.text() + seconds.text() + predicted.text();
}

// A program without marks is in no phase.
bool is_in_phase(const RankView& rank) {
  return rank.state == RankState::running && rank.observed.has_training &&
         (rank.observed.phase != Phase::other || rank.observed.step > 0);
}

}  // namespace

json JobView::job() const {
  json ranks = json::array();
  int spares = 0;
  for (const auto& [number, rank] : ranks_) {
    if (rank.state == RankState::running && rank_of(number) < 0) ++spares;
    if (rank_of(number) < 0) continue;
    ranks.push_back(rueda::as_json(rank_of(number), rank));
    const std::string& host = hosts_.at(static_cast<std::size_t>(rank.host)).name;
    ranks.back()["host"] = host;
    ranks.back()["name"] = name_of_rank(number);
  }
  return {{"version", 1},
          {"command", facts_.command},
          {"started_at", facts_.started_at},
          {"elastic", facts_.elastic},
          {"generation", membership_.generation},
          {"spares", spares},
          {"lost", membership_.lost},
          {"joined", membership_.joined},
          {"ranks", std::move(ranks)},
          {"hosts", list_of(hosts_, [](const HostView& host) { return facts_as_json(host); })}};
}

// Agents tell of a rank that is in the same phase only now and then, and of their host at each look.
std::optional<double> JobView::phase_seconds(const RankView& rank, Time now) const {
  const agents::Observed& news = rank.observed;
  if (rank.state != RankState::running || !news.has_training) return std::nullopt;
  const double heard_at = std::max(hosts_.at(static_cast<std::size_t>(rank.host)).heard_at, rank.heard_at);
  if (unix_seconds(now) > heard_at + kSilent) return std::nullopt;
  return std::max(0.0,
                  static_cast<double>(news.now_ns - news.phase_since_ns) * 1e-9 + heard_at - rank.heard_at);
}

// Of phases that last longer than an update: the page lets a span grow by its beginning.
json JobView::take_open_spans(Time now) {
  json spans = json::array();
  for (auto& [number, rank] : ranks_) {
    if (membership_.is_over || rank_of(number) < 0 || !is_in_phase(rank) ||
        phase_seconds(rank, now).value_or(0) <= kLongPhase)
      continue;
    if (rank.told.begin_ns != rank.phase_since_ns)
      rank.told = {rank.phase_since_ns, clock_.job_time(rank.phase_since_ns)};
    const RankSpan span{rank.observed.phase, rank.observed.step, rank.told.shown_ns, job_ns(now)};
    spans.push_back(rueda::as_json(ShownSpan{rank_of(number), span}));
  }
  return spans;
}

json JobView::operations(Time now) const {
  json list = json::array();
  const bool stands_still = line_.state == LineState::waiting || line_.state == LineState::stalled;
  const double step_ms = line_.progress.step_ms;
  const double limit = stands_still ? notable_wait(step_ms) : stalled_wait(step_ms);
  for (const auto& [number, rank] : ranks_) {
    const double seconds = phase_seconds(rank, now).value_or(0);
    if (membership_.is_over || rank_of(number) < 0 || !is_in_phase(rank) || seconds <= limit) continue;
    list.push_back({{"rank", rank_of(number)},
                    {"name", name_of_rank(number)},
                    {"activity", fmt::format("{} for {:.1f} s", name_of(rank.observed.phase), seconds)}});
  }
  return list;
}

// Of those that are still in the job.
json JobView::late_as_json() const {
  Analysis analysis = analysed_.analysis;
  const auto use_ranks = [&](auto& list) {
    for (auto& each : list) each.rank = rank_of(each.rank);
    std::erase_if(list, [](const auto& each) { return each.rank < 0; });
  };
  use_ranks(analysis.lateness.ranks);
  use_ranks(analysis.what_ifs);
  return rueda::as_json(analysis);
}

// Rank 0 first. Ranks that have left the job count, too.
std::vector<const RankPlans*> JobView::plans() const {
  std::vector<const RankPlans*> list;
  for (const auto& [number, rank] : ranks_)
    list.insert(rank_of(number) == 0 ? list.begin() : list.end(), &rank.plans);
  return list;
}

json JobView::update(Time now) {
  analyse(now);
  settle_line(now);
  json news = json::object();
  if (std::string line = in_words(line_); line != news_.line) {
    news["line"] = as_json(line_, rank_of(line_.culprit.rank));
    news_.line = std::move(line);
  }
  if (line_.has_steps && line_.progress != news_.progress) {
    news["progress"] = as_json(line_.progress);
    news_.progress = line_.progress;
  }
  if (json scalars = curves_.take_new(now); !scalars.empty()) news["scalars"] = std::move(scalars);
  json spans = list_of(std::exchange(news_.spans, {}), [](const auto& span) { return rueda::as_json(span); });
  for (json& span : take_open_spans(now)) spans.push_back(std::move(span));
  if (!spans.empty()) news["spans"] = std::move(spans);
  if (json still = operations(now); still != news_.operations)
    news["operations"] = news_.operations = std::move(still);
  if (std::exchange(news_.analysis, false)) news["late"] = late_as_json();
  if (news_.plan && now >= news_.plan_at + kBetweenPlans) {
    news_.plan = false;
    news_.plan_at = now;
    news["plan"] = plan_as_json(plans());
  }
  if (!news_.hosts.empty())
    news["hosts"] = list_of(std::exchange(news_.hosts, {}), [this](int host) {
      return load_as_json(hosts_[static_cast<std::size_t>(host)]);
    });
  if (news_.events_told < events_.size())
    news["events"] = list_of(
        std::vector<JobEvent>(
            events_.begin() + static_cast<std::ptrdiff_t>(std::exchange(news_.events_told, events_.size())),
            events_.end()),
        [](const auto& event) { return rueda::as_json(event); });
  if (news.empty()) return nullptr;
  news["now"] = feed_seconds(job_ns(now));
  return news;
}

json JobView::everything(Time now) const {
  json all{{"now", feed_seconds(job_ns(now))}, {"line", as_json(line_, rank_of(line_.culprit.rank))}};
  if (line_.has_steps) all["progress"] = as_json(line_.progress);
  all["scalars"] = curves_.all();
  all["spans"] = list_of(spans_, [](const auto& span) { return rueda::as_json(span); });
  all["operations"] = news_.operations;
  if (!analysed_.analysis.lateness.ranks.empty()) all["late"] = late_as_json();
  if (json plan = plan_as_json(plans()); !plan.is_null()) all["plan"] = std::move(plan);
  all["hosts"] = json::array();
  for (const HostView& host : hosts_)
    if (host.is_heard) all["hosts"].push_back(load_as_json(host));
  all["events"] =
      list_of(std::vector<JobEvent>(events_.begin(),
                                    events_.begin() + static_cast<std::ptrdiff_t>(news_.events_told)),
              [](const auto& event) { return rueda::as_json(event); });
  return all;
}

json JobView::rank_status(int number, const RankView& rank, Time now) const {
  json entry = rueda::as_json(rank_of(number), rank);
  if (rank_of(number) < 0) entry.erase("rank");
  entry["worker"] = number;
  entry["host"] = hosts_.at(static_cast<std::size_t>(rank.host)).name;
  entry["name"] = name_of_rank(number);
  if (!rank.is_heard) return entry;
  entry["resident_bytes"] = rank.observed.resident_bytes;
  entry["cpu_seconds"] = rank.observed.cpu_seconds;
  if (!rank.observed.has_training) return entry;
  entry["step"] = rank.observed.step;
  if (rank.state == RankState::running) entry["phase"] = name_of(rank.observed.phase);
  if (const std::optional<double> seconds = phase_seconds(rank, now)) entry["phase_for"] = *seconds;
  const auto& late = analysed_.analysis.lateness.ranks;
  const auto found = std::ranges::find(late, number, &LateRank::rank);
  if (found != late.end()) entry["late_ms"] = std::round(found->late_ms * 1e3) / 1e3;
  return entry;
}

json JobView::status(Time now) const {
  json ranks = json::array();
  for (const auto& [number, rank] : ranks_) ranks.push_back(rank_status(number, rank, now));
  return {{"job", job()}, {"update", everything(now)}, {"ranks", std::move(ranks)}};
}

std::string JobView::metrics() const {
  Family states("rueda_job_ranks", "Ranks of the job.", "gauge");
  for (const RankState state : {RankState::starting, RankState::running, RankState::ended, RankState::lost})
    states.add(fmt::format("{{state=\"{}\"}}", name_of(state)), static_cast<double>(count(ranks_, state)));
  std::string text = states.text();
  text += one_gauge("rueda_job_generation", "Generation of the job.",
                    static_cast<double>(membership_.generation));
  if (line_.has_steps) {
    const Progress& progress = line_.progress;
    text +=
        one_gauge("rueda_job_step", "Steps that all ranks have ended.", static_cast<double>(progress.step));
    text += one_gauge("rueda_job_total_steps", "Steps of the run; 0: unknown.",
                      static_cast<double>(progress.total));
    text += one_gauge("rueda_job_samples_per_second", "Samples of all ranks.", progress.samples_per_s);
    text += one_gauge("rueda_job_step_seconds", "Mean time of a step.", progress.step_ms * 1e-3);
    text +=
        one_gauge("rueda_job_wait_seconds", "Wait for the last rank, of a step.", progress.wait_ms * 1e-3);
  }
  Family late("rueda_job_rank_late_seconds", "Mean lateness of a rank, of a step.", "gauge");
  for (const LateRank& rank : analysed_.analysis.lateness.ranks)
    if (const int number = rank_of(rank.rank); number >= 0)
      late.add(fmt::format("{{rank=\"{}\"}}", number), rank.late_ms * 1e-3);
  std::map<int, const RankView*> by_rank;
  for (const auto& [number, rank] : ranks_)
    if (rank_of(number) >= 0) by_rank[rank_of(number)] = &rank;
  Family scalars("rueda_job_scalar", "Last value of a curve.", "gauge");
  for (const auto& [tag, rank, value] : curves_.last_values())
    scalars.add(fmt::format("{{tag=\"{}\",rank=\"{}\"}}", label_value(tag), rank), value);
  return text + late.text() + scalars.text() + metrics_of(by_rank) + metrics_of(hosts_) +
         metrics_of(sums_of(plans()));
}

}  // namespace rueda
