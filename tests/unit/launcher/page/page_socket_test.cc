// SPDX-License-Identifier: Apache-2.0
#include "launcher/page/page_socket.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/scratch_folder.h"

namespace rueda {
namespace {

std::string refusal_of(const std::string& host, int port) {
  LaunchOptions options;
  options.page = {.is_wanted = true, .is_given = true, .host = host, .port = port};
  return error_message([&] { page_socket(options); });
}

TEST(PageSocket, APortInUseIsRefusedWithTheRemedy) {
  const PageSocket taken = listen_on_port("127.0.0.1", 0);
  const std::string text = refusal_of("127.0.0.1", port_of(taken));
  EXPECT_NE(text.find("(Address already in use); name another port"), std::string::npos) << text;
}

// Too long for a name server to be asked.
TEST(PageSocket, AnUnknownHostIsNamedAsTheMistake) {
  const std::string name(100, 'x');
  const std::string text = refusal_of(name, 0);
  EXPECT_TRUE(text.starts_with("--page: host '" + name + "' is not found (")) << text;
  EXPECT_EQ(text.find("port"), std::string::npos) << text;
}

TEST(PageSocket, AnAddressOfAnotherMachineIsNamedAsTheMistake) {
  const std::string text = refusal_of("192.0.2.1", 0);
  EXPECT_NE(text.find("192.0.2.1"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("name an address of this machine")) << text;
}

TEST(PageSocket, NobodyIsToldOfAPortThatNobodyNamed) {
  LaunchOptions options;
  options.page.host = std::string(100, 'x');
  EXPECT_FALSE(page_socket(options).has_value());
}

}  // namespace
}  // namespace rueda
