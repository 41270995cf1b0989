// SPDX-License-Identifier: Apache-2.0
// The HTTP server of a job's page.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "launcher/page/event_feed.h"
#include "launcher/page/page_access.h"
#include "launcher/page/page_bounds.h"
#include "launcher/page/page_socket.h"

namespace rueda {

class PageConnections;

// Purpose: answers browsers on a TCP port, and `ruedarun --status` on a Unix socket, with what an EventFeed
// has. It has a thread that accepts, and one for each connection, within the limits of PageConnections.
// Nothing that a client does keeps the loop of ruedarun from its work. Owned by the main thread of the
// supervisor.
class PageServer {
 public:
  // `host`: as the user calls it.
  static std::unique_ptr<PageServer> on_port(PageSocket socket, const std::string& host, EventFeed& feed,
                                             PageBounds bounds = {});
  // Who may open the socket may see the job, and the address of its `page` with the token. Throws
  // std::system_error where there can be none.
  static std::unique_ptr<PageServer> on_socket(const std::string& path, EventFeed& feed,
                                               const std::string& page);
  ~PageServer();

  // Requests are answered from now on.
  void start();
  // Ends all connections. The feed is closed.
  void stop();
  std::string url() const { return access_ ? access_->url() : ""; }

 private:
  PageServer(std::unique_ptr<PageConnections> connections, std::unique_ptr<PageAccess> access,
             EventFeed& feed, std::string told_page);

  bool may_dump();

  std::unique_ptr<PageAccess> access_;  // null: everybody has access
  const std::string told_page_;         // of another server: its address
  std::unique_ptr<PageConnections> connections_;
  std::thread accepting_;
  std::atomic<std::int64_t> dump_at_;  // nanoseconds of the steady clock: the last one that was asked for
};

}  // namespace rueda
