// SPDX-License-Identifier: Apache-2.0
#include "core/observe/training/timeline_request.h"

#include <sys/mman.h>

#include <array>
#include <cstring>
#include <utility>

#include "core/base/system/sealed_file.h"

namespace rueda {

bool TimelineRequestPage::write(const TimelineRequest& request) {
  std::array<std::uint64_t, kPathWords> path_words{};
  if (request.path.size() >= sizeof path_words) return false;
  std::memcpy(path_words.data(), request.path.data(), request.path.size());
  words.write([&](auto put) {
    put(first, request.first);
    put(last, request.last);
    for (std::size_t i = 0; i < kPathWords; ++i) put(path + i, path_words[i]);
  });
  return true;
}

std::optional<TimelineRequest> TimelineRequestPage::read() const {
  const auto copy = words.read();
  if (!copy || (*copy)[first] >= (*copy)[last]) return std::nullopt;
  const auto* text = reinterpret_cast<const char*>(copy->data() + path);
  const std::size_t longest = kPathWords * sizeof(std::uint64_t);
  TimelineRequest request{(*copy)[first], (*copy)[last], std::string(text, ::strnlen(text, longest))};
  return request.path.empty() ? std::nullopt : std::optional(std::move(request));
}

TimelineRequests& TimelineRequests::of_process() {
  static TimelineRequests& requests = *new TimelineRequests;  // threads may look until the process ends
  return requests;
}

TimelineRequests::TimelineRequests() {
  static const TimelineRequestPage nobody_asks{};
  page_ = &nobody_asks;
  file_ = sealed_file("rueda-requests", sizeof(TimelineRequestPage));
  if (!file_) return;
  void* memory =
      ::mmap(nullptr, sizeof(TimelineRequestPage), PROT_READ | PROT_WRITE, MAP_SHARED, file_.number(), 0);
  if (memory == MAP_FAILED)
    file_.close();
  else
    page_ = static_cast<const TimelineRequestPage*>(memory);
}

}  // namespace rueda
