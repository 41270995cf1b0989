// SPDX-License-Identifier: Apache-2.0
// munge, by which hosts of a cluster know one another's users: texts for one user alone. libmunge is loaded
// when it is needed first; nothing of it is needed to build.
#pragma once

#include <string>

#include <sys/types.h>

namespace rueda {

// Purpose: a text, or the reason why there is none. A value.
struct MungeText {
  enum class Outcome { good, unreadable, of_another_user, no_munge };
  Outcome outcome = Outcome::good;
  std::string text;
  std::string why;
};

// A credential that carries `text`, encrypted: letters without spaces. Processes of this user, on hosts with
// the same key of munge, can open it. Waits ten seconds at most for munge's daemon; `socket`: where it
// listens, empty for libmunge's own choice.
MungeText seal_by_munge(const std::string& text, const std::string& socket);

// The text that such a credential carries, if a process of this user has made it. Its age does not count:
// that somebody shows an old one again is no harm, as long as nobody else can open it.
MungeText open_by_munge(const std::string& credential, const std::string& socket);

// Whether a text begins as credentials do.
bool may_be_of_munge(const std::string& text);

}  // namespace rueda
