// SPDX-License-Identifier: Apache-2.0
// How things end, as a value: what travels inside the engine and between ranks. error.h turns it into
// exceptions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace rueda {

// The kinds of error: each has a class in error.h.
enum class StatusCode : std::uint8_t {
  ok,
  invalid_argument,  // this call cannot mean anything
  mismatch,          // ranks asked for different things under one name
  peer_lost,         // a rank died or left without a word; final for the process
  stalled,           // a limit of waiting was reached
  shut_down,         // a rank shut down while others still needed it
  not_initialized,   // no runtime, or called in a forked child
  backend_error,     // a library or the system failed us
};
inline constexpr int kStatusCodeCount = 8;  // of StatusCode

// Purpose: the outcome of an operation, with words that are the same on every rank. A plain value.
struct Status {
  StatusCode code = StatusCode::ok;  // which kind
  std::string message;               // names the rank, the tensor, both values and the remedy; empty when ok

  // Whether nothing went wrong.
  bool ok() const { return code == StatusCode::ok; }
  friend bool operator==(const Status&, const Status&) = default;

  // The Status of that code.
  static Status invalid_argument(std::string words) {
    return {StatusCode::invalid_argument, std::move(words)};
  }
  static Status mismatch(std::string words) { return {StatusCode::mismatch, std::move(words)}; }
  static Status peer_lost(std::string words) { return {StatusCode::peer_lost, std::move(words)}; }
  static Status stalled(std::string words) { return {StatusCode::stalled, std::move(words)}; }
  static Status shut_down(std::string words) { return {StatusCode::shut_down, std::move(words)}; }
  static Status not_initialized(std::string words) { return {StatusCode::not_initialized, std::move(words)}; }
  static Status backend_error(std::string words) { return {StatusCode::backend_error, std::move(words)}; }
};

// The name of its class in error.h: "PeerLost"; of ok "ok".
std::string_view to_string(StatusCode code);

}  // namespace rueda
