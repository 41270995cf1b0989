// SPDX-License-Identifier: Apache-2.0
// Who may see the page of a job.
#pragma once

#include <string>
#include <string_view>

namespace rueda {

// Purpose: the token of a page, and what a request has to bring. A page of another site may send a browser
// here, also under a name of its own that it points to this machine: such names are refused. A plain value.
class PageAccess {
 public:
  enum class Verdict { allowed, no_token, wrong_origin };

  // `host`, `port`: as the user gives them, or as chosen. `machine`: its name. Throws std::runtime_error
  // where libsodium fails.
  PageAccess(std::string host, int port, std::string machine);

  const std::string& token() const { return token_; }
  std::string url() const;
  // A browser that has opened the page may read by it.
  std::string cookie() const;

  struct Heads {
    std::string host, origin, cookie, token;  // the last one is in the address; empty: not there
    // The request is more than to read. It needs an origin, and the token itself: browsers send a cookie to
    // the servers of all ports of a host.
    bool acts = false;
  };
  Verdict judge(const Heads& heads) const;

 private:
  bool is_own(std::string_view host) const;
  std::string cookie_name() const;

  std::string host_;
  int port_;
  std::string machine_;
  // 32 hexadecimal digits each. Servers of other ports see the cookie: it lets nobody act.
  std::string token_, cookie_secret_;
};

}  // namespace rueda
