// SPDX-License-Identifier: Apache-2.0
#include "core/control/negotiation/call_mismatch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "core/control/messages/call_in_words.h"

namespace rueda {
namespace {

constexpr std::size_t kShown = 4;
constexpr std::string_view kCount = "number of tensors";

std::size_t tensors_of(const Request& request) { return request.others.size() + 1; }

const Request& tensor_of(const Request& request, std::size_t number) {
  return number == 0 ? request : request.others[number - 1];
}

// Purpose: the first thing in which two calls differ. A plain value.
struct CallDifference {
  std::size_t tensor = 0;
  std::string field;
  std::string first, second;  // where the description of a call does not tell
};

CallDifference difference_of_tensors(const Request& a, const Request& b, std::size_t number) {
  const CallInWords one = *call_in_words(a), other = *call_in_words(b);
  if (one.operation != other.operation) return {number, "operation", {}, {}};
  if (one.reduction != other.reduction) return {number, "reduction", {}, {}};
  if (one.type != other.type) return {number, "type", {}, {}};
  Request first = a, second = b;  // each for itself
  first.others.clear();
  second.others.clear();
  Difference difference = rueda::difference(first, second);
  // The sizes of a list decide how core carries out an operation, too.
  const bool by_sizes =
      difference.field == "signature" || difference.field == "shape" || difference.field == "operation";
  if (by_sizes && one.shape != other.shape) return {number, "shape", {}, {}};
  if (by_sizes) return {number, "sizes of the tensors in its list", {}, {}};
  return {number, std::move(difference.field), std::move(difference.first), std::move(difference.second)};
}

CallDifference difference_of_calls(const Request& a, const Request& b) {
  const std::size_t both = std::min(tensors_of(a), tensors_of(b));
  for (std::size_t i = 0; i < both; ++i) {
    CallDifference of_tensor = difference_of_tensors(tensor_of(a, i), tensor_of(b, i), i);
    if (!of_tensor.field.empty()) return of_tensor;
  }
  return {0, std::string(kCount), fmt::format("{}", tensors_of(a)), fmt::format("{}", tensors_of(b))};
}

std::string words_of(const Request& request, const CallDifference& difference, const std::string& value) {
  const CallInWords call = *call_in_words(tensor_of(request, difference.tensor));
  std::string words = call.operation;
  if (!call.reduction.empty()) words += fmt::format(" ({})", call.reduction);
  if (!call.type.empty()) words += fmt::format(" of {} {}", call.type, call.shape);
  if (!value.empty()) words += fmt::format(" with the {} {}", difference.field, value);
  if (difference.tensor > 0) words += fmt::format(" as its tensor {}", difference.tensor + 1);
  return words;
}

bool all_signed(const RequestOfRanks* asked) { return call_in_words(*asked->request).has_value(); }

}  // namespace

std::optional<std::string> mismatch_of_calls(std::span<const RequestOfRanks* const> requests) {
  if (!std::ranges::all_of(requests, all_signed)) return std::nullopt;
  const RequestOfRanks& first = *requests.front();
  const CallDifference two = difference_of_calls(*first.request, *requests[1]->request);
  std::string words = fmt::format("the ranks differ in the {}: {} called {}", two.field,
                                  to_string(first.ranks), words_of(*first.request, two, two.first));
  for (const RequestOfRanks* other : requests.subspan(1, std::min(kShown, requests.size()) - 1)) {
    const CallDifference its = difference_of_calls(*first.request, *other->request);
    words += fmt::format(", {} {}", to_string(other->ranks), words_of(*other->request, its, its.second));
  }
  if (requests.size() > kShown) words += fmt::format(", and {} calls more", requests.size() - kShown);
  words += two.field == "operation" ? ". Call the same operations in the same order on every rank."
                                    : fmt::format(". Call it with the same {} on every rank.", two.field);
  return words;
}

}  // namespace rueda
