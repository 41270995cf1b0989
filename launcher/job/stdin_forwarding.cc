// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/stdin_forwarding.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

#include "launcher/system/descriptor.h"

namespace rueda {
namespace {

constexpr const char* kOffer = "RUEDA_LAUNCH_STDIN";

// The descriptor that was offered; -1 when none was, or this process has another under that number.
int offered_descriptor() {
  const char* offer = std::getenv(kOffer);
  if (offer == nullptr) return -1;
  int number = -1;
  std::string_view text(offer);
  std::from_chars(text.data(), text.data() + text.size(), number);
  return !text.empty() && identity_of(number) == text ? number : -1;
}

}  // namespace

void offer_standard_input() {
  int copy = ::fcntl(STDIN_FILENO, F_DUPFD, kLeastInherited);
  ::setenv(kOffer, identity_of(copy).c_str(), 1);
}

void take_standard_input(bool first_rank) {
  int offered = offered_descriptor();
  ::unsetenv(kOffer);
  int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(first_rank && offered >= 0 ? offered : nothing, STDIN_FILENO);
  ::close(nothing);
  if (offered >= 0) ::close(offered);
}

}  // namespace rueda
