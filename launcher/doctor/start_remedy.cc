// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/start_remedy.h"

#include <fmt/format.h>

#include <cctype>

namespace rueda {
namespace {

constexpr int kUsage = 2;  // of a ruedarun that does not know the words of this one
constexpr int kNotExecutable = 126, kNotFound = 127;
constexpr int kNoConnection = 255;  // as ssh has it

}  // namespace

std::string capitalized(std::string text) {
  if (!text.empty()) text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

std::string remedy_of(const FailedStart& start) {
  if (start.said.find("finds no ruedarun") != std::string::npos)
    return "Open all TCP ports from there to this host, or name the network by --network-interface.";
  switch (start.status) {
    case kNoConnection:
      return fmt::format(
          "See that `{0} {1} true` works without a question: `ssh-copy-id {1}` for a password, "
          "`ssh {1}` once for an unknown host key.",
          start.method, start.host);
    case kUsage: return fmt::format("Install the same Rueda there, at {}.", start.program);
    case kNotFound:
    case kNotExecutable: return fmt::format("Install Rueda there, so that {} is a program.", start.program);
    default:
      return fmt::format("Look at what `{} {} {} --version` says.", start.method, start.host, start.program);
  }
}

}  // namespace rueda
