// SPDX-License-Identifier: Apache-2.0
#include "core/observe/training/route_counter.h"

#include <algorithm>
#include <bit>
#include <string>

namespace rueda {
namespace {

void add_to(std::uint64_t& word, std::uint64_t amount) { store_word(word, load_word(word) + amount); }

std::uint8_t size_class_of(std::uint64_t bytes) {
  return bytes < 2 ? 0 : static_cast<std::uint8_t>(std::min<std::size_t>(63, std::bit_width(bytes - 1)));
}

void take_over(PlanSettings& settings, const TuningParameters& parameters) {
  settings.fusion_threshold = static_cast<std::uint64_t>(parameters.fusion_threshold);
  settings.linger = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(parameters.linger).count());
  settings.chunk_bytes = static_cast<std::uint64_t>(parameters.chunk_bytes);
  settings.route_bytes = static_cast<std::uint64_t>(parameters.route_bytes);
}

}  // namespace

RouteCounter::~RouteCounter() {
  if (record_ == nullptr) return;
  for (const Known& known : known_)
    if (known.route != nullptr) record_->give_back(*known.route);
  record_->give_back_settings(this);
}

bool RouteCounter::begin(TrainingRecord& record, const TuningParameters& parameters) {
  record_ = &record;
  take_over(settings_, parameters);
  return record_->use_settings(this, settings_);
}

void RouteCounter::heard(const TunerNews& news) {
  if (record_ == nullptr) return;
  PlanSettings settings = settings_;
  settings.is_tuned = true;
  take_over(settings, news.parameters);
  for (const TuningRecord& record : news.records) {
    if (record.state == "base" || record.state == "candidate") ++settings.tuner_samples;
    if (record.state == "verdict") settings.tuner_words = record.words;
  }
  if (settings == settings_) return;
  settings_ = settings;
  record_->use_settings(this, settings_);
}

RouteCounter::Key RouteCounter::key_of(const EndedPlan& plan, std::uint8_t size_class) {
  const std::uint64_t values = static_cast<std::uint64_t>(plan.operation) |
                               static_cast<std::uint64_t>(plan.dtype) << 8 |
                               static_cast<std::uint64_t>(plan.route.sent_as) << 16 |
                               static_cast<std::uint64_t>(plan.route.ends_on_device) << 24 |
                               static_cast<std::uint64_t>(size_class) << 32;
  return {values, plan.backend.data(), plan.route.inside.data(), plan.route.between.data()};
}

std::size_t RouteCounter::slot_of(const Key& key) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15u;
  const std::uint64_t mixed =
      (key.values ^ std::bit_cast<std::uintptr_t>(key.inside) ^ std::bit_cast<std::uintptr_t>(key.between)) *
      kOdd;
  return mixed >> 58;  // one of 64
}

TrainingPage::Route* RouteCounter::find(const Key& key, const EndedPlan& plan, std::uint8_t size_class) {
  const auto known = std::ranges::find(known_, key, &Known::key);
  if (known != known_.end()) return known->route;
  TrainingPage::Route* const route = record_->take_route({.operation = plan.operation,
                                                          .dtype = plan.dtype,
                                                          .sent_as = plan.route.sent_as,
                                                          .ends_on_device = plan.route.ends_on_device,
                                                          .size_class = size_class,
                                                          .backend = std::string(plan.backend),
                                                          .inside = std::string(plan.route.inside),
                                                          .between = std::string(plan.route.between)});
  known_.push_back({key, route});
  return route;
}

void RouteCounter::count(const EndedPlan& plan) {
  if (record_ == nullptr) return;
  if (record_->has_free_settings()) record_->use_settings(this, settings_);
  const std::uint8_t size_class = size_class_of(plan.bytes);
  const Key key = key_of(plan, size_class);
  Known& recent = recent_[slot_of(key)];
  if (recent.key != key) recent = {key, find(key, plan, size_class)};
  if (recent.route == nullptr) return record_->count_unrouted();
  TrainingPage::Route& route = *recent.route;
  const auto took = static_cast<std::uint64_t>(std::max<std::int64_t>(plan.nanoseconds, 1));
  add_to(route.tensors, plan.tensors);
  add_to(route.bytes, plan.bytes);
  add_to(route.nanoseconds, took);
  const std::uint64_t fastest = load_word(route.fastest);
  if (fastest == 0 || took < fastest) store_word(route.fastest, took);
  if (plan.predicted > 0) {
    add_to(route.predicted, static_cast<std::uint64_t>(plan.predicted));
    add_to(route.predicted_plans, 1);
  }
  add_to(route.plans, 1);
}

}  // namespace rueda
