// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/plan_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

namespace rueda {
namespace {

using nlohmann::json;

constexpr std::int64_t kWindow = 10'000'000'000;  // nanoseconds
constexpr std::int64_t kStale = 3'000'000'000;
constexpr std::size_t kMostSums = 48;  // that are told
constexpr auto kUnlimited = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

void add(RouteCount& sum, const RouteCount& count) {
  sum.plans += count.plans;
  sum.tensors += count.tensors;
  sum.bytes += count.bytes;
  sum.nanoseconds += count.nanoseconds;
  sum.predicted_plans += count.predicted_plans;
  sum.predicted += count.predicted;
  if (sum.fastest == 0 || (count.fastest > 0 && count.fastest < sum.fastest)) sum.fastest = count.fastest;
}

// A rank may tell anything.
RouteCount difference(const RouteCount& now, const RouteCount& before) {
  const auto less = [](std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; };
  return {.plans = less(now.plans, before.plans),
          .tensors = less(now.tensors, before.tensors),
          .bytes = less(now.bytes, before.bytes),
          .nanoseconds = less(now.nanoseconds, before.nanoseconds),
          .predicted_plans = less(now.predicted_plans, before.predicted_plans),
          .predicted = less(now.predicted, before.predicted)};
}

double mean(std::uint64_t sum, std::uint64_t count) {
  return count == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(count);
}

double rounded(double value) { return std::round(value * 1e3) / 1e3; }

double in_microseconds(std::uint64_t sum, std::uint64_t count) { return rounded(mean(sum, count) * 1e-3); }

// "tcp" as "TCP".
std::string link_in_words(std::string_view link) {
  if (link == "tcp") return "TCP";
  return link == "mpi" ? "MPI" : std::string(link);
}

std::string with(const std::string& words, const std::string& more) {
  return more.empty() ? words : fmt::format("{}, {}", words, more);
}

json settings_as_json(const PlanSettings& settings) {
  json entry{{"fusion_threshold", settings.fusion_threshold},
             {"cycle_ms", rounded(static_cast<double>(settings.linger) * 1e-6)},
             {"chunk_bytes", settings.chunk_bytes},
             {"is_tuned", settings.is_tuned},
             {"tuner_samples", settings.tuner_samples},
             {"tuner_words", settings.tuner_words}};
  if (settings.route_bytes < kUnlimited) entry["route_bytes"] = settings.route_bytes;
  return entry;
}

json as_json(const PlanSum& sum, double all_nanoseconds) {
  const RouteKind& kind = sum.kind;
  json entry{{"operation", to_string(kind.operation)},
             {"dtype", to_string(kind.dtype)},
             {"most_bytes", std::uint64_t{1} << kind.size_class},
             {"size", size_in_words(kind.size_class)},
             {"backend", kind.backend},
             {"inside", kind.inside},
             {"between", kind.between},
             {"route", route_in_words(kind)},
             {"sent_as", to_string(kind.sent_as)},
             {"ends_on_device", kind.ends_on_device},
             {"ranks", sum.ranks},
             {"plans", sum.count.plans},
             {"tensors", sum.count.tensors},
             {"bytes", sum.count.bytes},
             {"mean_us", in_microseconds(sum.count.nanoseconds, sum.count.plans)},
             {"fastest_us", in_microseconds(sum.count.fastest, 1)},
             {"share", rounded(static_cast<double>(sum.count.nanoseconds) / all_nanoseconds)}};
  if (sum.recent.plans > 0) {
    entry["recent_us"] = in_microseconds(sum.recent.nanoseconds, sum.recent.plans);
    entry["per_s"] = rounded(static_cast<double>(sum.recent.plans) / sum.recent_seconds);
  }
  if (sum.recent.predicted_plans > 0)
    entry["recent_predicted_us"] = in_microseconds(sum.recent.predicted, sum.recent.predicted_plans);
  if (sum.count.predicted_plans > 0)
    entry["predicted_us"] = in_microseconds(sum.count.predicted, sum.count.predicted_plans);
  return entry;
}

std::string time_in_words(double microseconds) {
  if (microseconds < 999.5) return fmt::format("{:.{}f} us", microseconds, microseconds < 99.95 ? 1 : 0);
  if (microseconds < 999'500)
    return fmt::format("{:.{}f} ms", microseconds * 1e-3, microseconds < 99'950 ? 1 : 0);
  return fmt::format("{:.1f} s", microseconds * 1e-6);
}

std::string settings_in_words(const json& settings) {
  std::string text =
      fmt::format("fusion up to {} bytes, cycle {:g} ms, chunks of {} bytes",
                  settings.at("fusion_threshold").get<std::uint64_t>(), settings.at("cycle_ms").get<double>(),
                  settings.at("chunk_bytes").get<std::uint64_t>());
  if (settings.contains("route_bytes"))
    text += fmt::format(", second backend above {} bytes", settings.at("route_bytes").get<std::uint64_t>());
  if (!settings.at("is_tuned").get<bool>()) return text + "; not tuned";
  text += fmt::format("; tuned, {} samples", settings.at("tuner_samples").get<std::uint64_t>());
  const auto words = settings.at("tuner_words").get<std::string>();
  return words.empty() ? text : text + ": " + words;
}

constexpr std::size_t kColumns = 8;
using Row = std::array<std::string, kColumns>;

Row row_of(const json& route) {
  const double plans = route.at("plans").get<double>(), ranks = route.at("ranks").get<double>();
  const bool has_model = route.contains("predicted_us");
  const auto sent_as = route.at("sent_as").get<std::string>();
  return {
      fmt::format("{} {}", route.at("operation").get<std::string>(), route.at("dtype").get<std::string>()),
      "<= " + route.at("size").get<std::string>(),
      route.at("route").get<std::string>() + (sent_as == "none" ? "" : ", as " + sent_as),
      fmt::format("{:.0f}", plans / ranks),
      fmt::format("{:.1f}", route.at("tensors").get<double>() / plans),
      time_in_words(route.at("mean_us").get<double>()) +
          (route.at("ends_on_device").get<bool>() ? " + device" : ""),
      has_model ? time_in_words(route.at("predicted_us").get<double>()) : "-",
      fmt::format("{:.0f} %", 100 * route.at("share").get<double>())};
}

}  // namespace

void RankPlans::hear(const agents::Observed& news) {
  heard_ns = news.now_ns;
  settings = news.settings;
  uncounted = news.plans_uncounted;
  for (const CountedRoute& counted : news.routes) {
    const auto [found, is_first] = routes.try_emplace(counted.number);
    Route& route = found->second;
    if (is_first || route.kind != counted.kind || counted.count.plans < route.count.plans) {
      route = {counted.kind, counted.count, counted.count, news.now_ns, news.now_ns};  // of another process
      continue;
    }
    if (news.now_ns - route.before_ns > kWindow) {
      route.before = route.count;
      route.before_ns = route.at_ns;
    }
    route.count = counted.count;
    route.at_ns = news.now_ns;
  }
}

std::vector<PlanSum> sums_of(const std::vector<const RankPlans*>& ranks) {
  std::map<RouteKind, PlanSum> sums;
  for (const RankPlans* rank : ranks) {
    std::map<PlanSum*, double> seconds;  // the longest of its Routes of one kind
    for (const auto& [number, route] : rank->routes) {
      if (route.count.plans == 0) continue;
      PlanSum& sum = sums[route.kind];
      sum.kind = route.kind;
      const auto [its, is_first] = seconds.try_emplace(&sum, 0);
      if (is_first) ++sum.ranks;
      add(sum.count, route.count);
      const std::int64_t took = route.at_ns - route.before_ns;
      if (took <= 0 || rank->heard_ns - route.at_ns > kStale) continue;
      add(sum.recent, difference(route.count, route.before));
      its->second = std::max(its->second, static_cast<double>(took) * 1e-9);
    }
    for (const auto& [sum, longest] : seconds) sum->recent_seconds += longest;
  }
  std::vector<PlanSum> list;
  for (auto& [kind, sum] : sums) list.push_back(std::move(sum));
  std::ranges::stable_sort(list, std::greater{}, [](const PlanSum& sum) { return sum.count.nanoseconds; });
  return list;
}

std::string route_in_words(const RouteKind& kind) {
  const std::string_view backend = kind.backend;
  const auto behind = [&](std::string_view beginning) { return backend.substr(beginning.size()); };
  if (backend == "shm") return with("shared memory", kind.inside);
  if (backend == "local" || backend == "cuda-alone") return "this rank alone";
  if (backend.starts_with("nccl-hierarchy-") && kind.inside == "NCCL")
    return fmt::format("{} and {}", kind.inside,
                       with(link_in_words(behind("nccl-hierarchy-")), kind.between));
  if (kind.between == "NCCL") return "NCCL";
  RouteKind below = kind;
  for (const std::string_view beginning :
       {"nccl-hierarchy-", "nccl-", "cuda-"}) {  // NCCL could not connect these ranks
    if (!backend.starts_with(beginning)) continue;
    below.backend = behind(beginning);
    return "through the host, " + route_in_words(below);
  }
  if (backend.starts_with("hierarchy-"))
    return fmt::format("{} and {}", with("shared memory", kind.inside),
                       with(link_in_words(behind("hierarchy-")), kind.between));
  return with(link_in_words(backend), kind.between);
}

std::string size_in_words(std::uint8_t size_class) {
  constexpr std::array<std::string_view, 7> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  return fmt::format("{} {}", 1U << size_class % 10, kUnits[std::min<std::size_t>(size_class / 10, 6)]);
}

json plan_as_json(const std::vector<const RankPlans*>& ranks) {
  if (std::ranges::all_of(ranks, [](const RankPlans* rank) { return rank->empty(); })) return nullptr;
  const std::vector<PlanSum> sums = sums_of(ranks);
  double nanoseconds = 0;
  for (const PlanSum& sum : sums) nanoseconds += static_cast<double>(sum.count.nanoseconds);
  json routes = json::array();
  for (std::size_t i = 0; i < std::min(sums.size(), kMostSums); ++i)
    routes.push_back(as_json(sums[i], std::max(nanoseconds, 1.0)));
  std::uint64_t uncounted = 0;
  for (const RankPlans* rank : ranks) uncounted += rank->uncounted;
  json plan{{"routes", std::move(routes)},
            {"more", sums.size() - std::min(sums.size(), kMostSums)},
            {"uncounted", uncounted}};
  if (ranks.front()->settings.fusion_threshold > 0)
    plan["settings"] = settings_as_json(ranks.front()->settings);
  return plan;
}

std::string plan_text(const json& plan) {
  std::vector<Row> rows{{"Plans", "size", "route", "a rank", "tensors", "mean", "predicted", "share"}};
  for (const json& route : plan.at("routes")) rows.push_back(row_of(route));
  std::array<std::size_t, kColumns> widths{};
  for (const Row& row : rows)
    for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  if (plan.contains("settings")) text += settings_in_words(plan.at("settings")) + "\n";
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < kColumns; ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return rows.size() > 1 ? text : "";
}

}  // namespace rueda
