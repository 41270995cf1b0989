// SPDX-License-Identifier: Apache-2.0
#include "launcher/page/page_access.h"

#include <gtest/gtest.h>

namespace rueda {
namespace {

using Verdict = PageAccess::Verdict;

TEST(PageAccess, TokensAreLongAndNeverTheSame) {
  const PageAccess one("127.0.0.1", 80, "machine"), other("127.0.0.1", 80, "machine");
  EXPECT_EQ(one.token().size(), 32);
  EXPECT_EQ(one.token().find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(one.token(), other.token());
  EXPECT_EQ(one.url(), "http://127.0.0.1:80/?token=" + one.token());
  EXPECT_EQ(PageAccess("::1", 80, "machine").url().substr(0, 15), "http://[::1]:80");
}

TEST(PageAccess, TokenOrCookieOpensThePage) {
  const PageAccess access("127.0.0.1", 8080, "machine");
  const auto judge = [&](const std::string& token, const std::string& cookie) {
    return access.judge({.host = "127.0.0.1:8080", .origin = "", .cookie = cookie, .token = token});
  };
  const std::string cookie = access.cookie().substr(0, access.cookie().find(';'));
  const std::string name = cookie.substr(0, cookie.find('='));
  const std::string secret = cookie.substr(cookie.find('=') + 1);
  EXPECT_TRUE(name.starts_with("rueda-8080-")) << "servers of other ports see it";
  EXPECT_NE(PageAccess("127.0.0.1", 8080, "machine").cookie().substr(0, name.size()), name)
      << "by tunnels, jobs of several hosts may have one port";
  EXPECT_EQ(judge(access.token(), ""), Verdict::allowed);
  EXPECT_EQ(judge("", cookie), Verdict::allowed);
  EXPECT_EQ(judge("", "a=b; " + cookie + "; c=d"), Verdict::allowed);
  EXPECT_EQ(judge(secret, ""), Verdict::no_token) << "servers of other ports see it";
  EXPECT_EQ(judge("", name + "=" + access.token()), Verdict::no_token);
  EXPECT_EQ(judge("", ""), Verdict::no_token);
  EXPECT_EQ(judge(access.token().substr(1), ""), Verdict::no_token);
  EXPECT_EQ(judge("", "rueda-8081" + name.substr(10) + "=" + secret), Verdict::no_token);
  EXPECT_EQ(judge("", name + "=x" + secret), Verdict::no_token);
  EXPECT_EQ(judge("", ";;=;" + name), Verdict::no_token);
  EXPECT_NE(access.cookie().find("HttpOnly; SameSite=Strict"), std::string::npos);
}

TEST(PageAccess, NamesAndOriginsOfOthersAreRefused) {
  const PageAccess access("127.0.0.1", 8080, "machine");
  const auto judge = [&](const std::string& host, const std::string& origin) {
    return access.judge({.host = host, .origin = origin, .cookie = "", .token = access.token()});
  };
  EXPECT_EQ(judge("127.0.0.1:8080", "http://127.0.0.1:8080"), Verdict::allowed);
  EXPECT_EQ(judge("localhost:9999", ""), Verdict::allowed) << "a tunnel";
  EXPECT_EQ(judge("[::1]:8080", ""), Verdict::allowed);
  for (const char* host : {"evil.com", "evil.com:8080", "127.0.0.1.evil.com:8080", "", "localhost.evil.com"})
    EXPECT_EQ(judge(host, ""), Verdict::wrong_origin) << host;
  for (const char* origin : {"http://evil.com", "null", "https://127.0.0.1:8080", "http://127.0.0.1:8081"})
    EXPECT_EQ(judge("127.0.0.1:8080", origin), Verdict::wrong_origin) << origin;
}

}  // namespace
}  // namespace rueda
