// SPDX-License-Identifier: Apache-2.0
// MetricsSnapshot as text.
#include <fmt/format.h>

#include <algorithm>

#include "core/observe/metrics.h"

namespace rueda {
namespace {

constexpr std::size_t kMostRanksNamed = 256;

std::string escaped(std::string_view label) {
  std::string text;
  for (char letter : label) {
    if (letter == '\n') {
      text += "\\n";
      continue;
    }
    if (letter == '\\' || letter == '"') text += '\\';
    text += letter;
  }
  return text;
}

// Purpose: writes families of samples that all carry the rank. A local of to_prometheus_text.
class Text {
 public:
  explicit Text(Rank rank) : rank_(rank) {}

  void family(std::string_view name, std::string_view type, std::string_view help) {
    family_ = fmt::format("rueda_{}", name);
    text_ += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", family_, help, type);
  }
  // `labels` as in `operation="allreduce"`, or empty.
  template <class Value>
  void sample(Value value, std::string_view labels = {}, std::string_view suffix = {}) {
    text_ += fmt::format("{}{}{{rank=\"{}\"{}{}}} {}\n", family_, suffix, rank_, labels.empty() ? "" : ",",
                         labels, value);
  }
  template <class Value>
  void single(std::string_view name, std::string_view type, std::string_view help, Value value) {
    family(name, type, help);
    sample(value);
  }
  void histogram(std::string_view name, std::string_view help, const Histogram& histogram) {
    family(name, "histogram", help);
    std::uint64_t below = 0;
    for (std::size_t i = 0; i < Histogram::kBounds.size(); ++i) {
      below += histogram.counts[i];
      sample(below, fmt::format("le=\"{}\"", Histogram::kBounds[i]), "_bucket");
    }
    sample(histogram.count, "le=\"+Inf\"", "_bucket");
    sample(histogram.sum, {}, "_sum");
    sample(histogram.count, {}, "_count");
  }
  std::string take() { return std::move(text_); }

 private:
  Rank rank_;
  std::string family_;
  std::string text_;
};

void write_operations(Text& text, const MetricsSnapshot& metrics) {
  text.family("operations_total", "counter", "Operations that ended on this rank.");
  for (const auto& counts : metrics.operations) {
    const std::string label = fmt::format("operation=\"{}\"", escaped(to_string(counts.operation)));
    text.sample(counts.completed, label + ",result=\"completed\"");
    text.sample(counts.failed, label + ",result=\"failed\"");
  }
  text.family("bytes_total", "counter", "Bytes of the tensors of completed operations.");
  for (const auto& counts : metrics.operations)
    text.sample(counts.bytes, fmt::format("operation=\"{}\"", escaped(to_string(counts.operation))));
}

void write_tuning_parameters(Text& text, const MetricsSnapshot& metrics) {
  if (!metrics.tuned) return;
  text.single("autotune_linger_seconds", "gauge", "How long a ready tensor waits for company, at most.",
              std::chrono::duration<double>(metrics.parameters.linger).count());
  text.single("autotune_chunk_bytes", "gauge", "What a message of a ring carries at most.",
              metrics.parameters.chunk_bytes);
  text.family("autotune_route_bytes", "gauge", "Plans up to this size take the first backend that can.");
  if (metrics.parameters.route_bytes == TuningParameters::kUnlimited) {
    text.sample("+Inf");
  } else {
    text.sample(metrics.parameters.route_bytes);
  }
}

void write_waited_for(Text& text, const MetricsSnapshot& metrics) {
  if (metrics.rank != 0) return;
  const std::size_t named = std::min(kMostRanksNamed, metrics.waited_for.size());
  text.family("waited_for_total", "counter", "How often slow_rank was the last to submit an operation.");
  for (std::size_t i = 0; i < named; ++i)
    text.sample(metrics.waited_for[i].times, fmt::format("slow_rank=\"{}\"", metrics.waited_for[i].rank));
  text.family("waited_for_seconds_total", "counter",
              "How long all ranks but slow_rank waited for it to submit.");
  for (std::size_t i = 0; i < named; ++i)
    text.sample(metrics.waited_for[i].seconds, fmt::format("slow_rank=\"{}\"", metrics.waited_for[i].rank));
}

void write_membership(Text& text, const MetricsSnapshot::Membership& membership) {
  if (membership.generations == 0) return;
  text.single("generations_total", "counter", "Generations of an elastic job that this process was in.",
              membership.generations);
  text.single("workers_lost_total", "counter", "Workers that are gone, or have left.", membership.lost);
  text.single("workers_joined_total", "counter", "Workers that have come.", membership.joined);
  text.single("standing_still_seconds_total", "counter", "Time between generations.",
              membership.seconds_standing_still);
}

}  // namespace

std::string to_prometheus_text(const MetricsSnapshot& metrics) {
  Text text(metrics.rank);
  text.family("info", "gauge", "Who this rank is.");
  text.sample(1, fmt::format("host=\"{}\",size=\"{}\"", escaped(metrics.host), metrics.size));
  write_operations(text, metrics);
  text.histogram("negotiation_seconds", "From a tensor's submission to the arrival of its Plan.",
                 metrics.negotiation);
  text.histogram("waiting_seconds", "From the arrival of a Plan to the start of its Work.", metrics.waiting);
  text.histogram("data_seconds", "From the start of a Work to its end.", metrics.data);
  text.single("plans_total", "counter", "Plans that were started.", metrics.plans);
  text.single("fused_plans_total", "counter", "Plans of more than one tensor.", metrics.fused_plans);
  text.single("fused_tensors_total", "counter", "Tensors in fused Plans.", metrics.fused_tensors);
  text.single("fused_bytes_total", "counter", "Bytes in the buffers of fused Plans.", metrics.fused_bytes);
  text.single("fusion_threshold_bytes", "gauge", "What a fusion buffer holds at most.",
              metrics.fusion_threshold);
  text.single("works_in_flight", "gauge", "RunningWorks that are moving data.", metrics.works_in_flight);
  text.single("works_in_flight_most", "gauge", "The most there were at one time.",
              metrics.most_works_in_flight);
  text.single("cache_hits_total", "counter", "Requests that travelled as one bit.", metrics.cache_hits);
  text.single("cache_misses_total", "counter", "Requests that travelled in full.", metrics.cache_misses);
  text.single("timeline_events_lost_total", "counter", "Timeline events for which there was no room.",
              metrics.timeline_events_lost);
  write_tuning_parameters(text, metrics);
  write_waited_for(text, metrics);
  write_membership(text, metrics.membership);
  return text.take();
}

}  // namespace rueda
