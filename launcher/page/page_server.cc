// SPDX-License-Identifier: Apache-2.0
#include "launcher/page/page_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/base/time.h"
#include "launcher/page/page_assets.h"
#include "launcher/page/page_connections.h"
#include "launcher/system/signals.h"

namespace rueda {
namespace {

using httplib::Request;
using httplib::Response;

constexpr int kUnauthorized = 401, kForbidden = 403, kNotFound = 404, kWrongMethod = 405, kNoRanges = 416,
              kTooMany = 429, kBusy = 503;
constexpr std::int64_t kBetweenDumps = 1'000'000'000;  // nanoseconds
constexpr const char* kPlain = "text/plain; charset=utf-8";
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src "
    "'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

void refuse(Response& response, int status, const char* why) {
  response.status = status;
  response.set_content(fmt::format("{}\n", why), kPlain);
}

void send(Response& response, const EventFeed::Text& text, const char* type) {
  if (!text) return refuse(response, kBusy, "ruedarun does not answer");
  response.status = 200;
  response.set_content(*text, type);
}

void send_events(Response& response, EventFeed& feed) {
  std::optional<EventFeed::Reader> first = feed.begin();
  if (!first) return refuse(response, kBusy, "too many watch this job");
  response.status = 200;
  response.set_chunked_content_provider(
      "text/event-stream",
      [&feed, reader = *first](std::size_t, httplib::DataSink& sink) mutable {
        const EventFeed::Text events = feed.next(reader);
        if (events) return sink.write(events->data(), events->size());
        sink.done();
        return false;
      },
      [&feed](bool) { feed.end(); });
}

void send_asset(Response& response, std::string_view path) {
  const std::string_view name = path == "/" ? "index.html" : path.substr(1);
  const auto assets = page_assets();
  const auto asset = std::ranges::find(assets, name, &PageAsset::name);
  if (asset == assets.end()) return refuse(response, kNotFound, "no such page");
  response.status = 200;
  response.set_content(asset->text.data(), asset->text.size(), std::string(asset->content_type));
}

// What a client asks for by its path, and the method that it needs.
struct Route {
  std::string_view path;
  std::string_view method;
  Inquiry inquiry;
  const char* type;
};
constexpr const char* kJson = "application/json";
constexpr std::array<Route, kInquiries> kRoutes{
    {{"/status", "GET", Inquiry::status, kJson},
     {"/metrics", "GET", Inquiry::metrics, "text/plain; version=0.0.4"},
     {"/stacks", "POST", Inquiry::stacks, kJson},
     {"/dump", "POST", Inquiry::dump, kJson},
     {"/timeline", "POST", Inquiry::timeline, kJson},
     {"/stop", "POST", Inquiry::stop, kJson}}};

bool acts(const Request& request) { return request.method != "GET" && request.method != "HEAD"; }

void answer(const Request& request, Response& response, EventFeed& feed) {
  const auto route = std::ranges::find(kRoutes, std::string_view(request.path), &Route::path);
  if (route != kRoutes.end()) {
    if (route->method != (acts(request) ? std::string_view(request.method) : "GET"))
      return refuse(response, kWrongMethod, "this address needs another method");
    return send(response, feed.ask(route->inquiry, request.get_param_value("steps")), route->type);
  }
  if (acts(request)) return refuse(response, kWrongMethod, "this can only be read");
  if (request.path == "/events" && request.method == "GET") return send_events(response, feed);
  send_asset(response, request.path);
}

// True where the request may go on.
bool admit(const Request& request, Response& response, const PageAccess& access) {
  const PageAccess::Verdict verdict = access.judge({.host = request.get_header_value("Host"),
                                                    .origin = request.get_header_value("Origin"),
                                                    .cookie = request.get_header_value("Cookie"),
                                                    .token = request.get_param_value("token"),
                                                    .acts = acts(request)});
  switch (verdict) {
    case PageAccess::Verdict::allowed:
      if (request.path == "/") response.set_header("Set-Cookie", access.cookie());
      return true;
    case PageAccess::Verdict::no_token:
      refuse(response, kUnauthorized, "the address has to carry the token that ruedarun has printed");
      return false;
    case PageAccess::Verdict::wrong_origin: break;
  }
  refuse(response, kForbidden, "another site has no access");
  return false;
}

std::unique_ptr<PageConnections> make_connections(Descriptor listening, const PageBounds& bounds) {
  auto connections = std::make_unique<PageConnections>(std::move(listening), bounds);
  connections->set_payload_max_length(0);
  connections->set_default_headers({{"Cache-Control", "no-store"},
                                    {"Content-Security-Policy", kPolicy},
                                    {"X-Content-Type-Options", "nosniff"},
                                    {"Referrer-Policy", "no-referrer"}});
  return connections;
}

}  // namespace

PageServer::PageServer(std::unique_ptr<PageConnections> connections, std::unique_ptr<PageAccess> access,
                       EventFeed& feed, std::string told_page)
    : access_(std::move(access)),
      told_page_(std::move(told_page)),
      connections_(std::move(connections)),
      dump_at_(-kBetweenDumps) {
  connections_->set_pre_routing_handler([this, &feed](const Request& request, Response& response) {
    if (access_ && !admit(request, response, *access_)) return httplib::Server::HandlerResponse::Handled;
    if (request.ranges.size() > 1)  // copies of the whole, as many as the client wants
      response.status = kNoRanges;
    else if (!connections_->admit())
      refuse(response, kBusy, "too many connections");
    else if (!told_page_.empty() && request.path == "/page")
      response.set_content(nlohmann::json{{"page", told_page_}}.dump(), kJson);
    else if (access_ && acts(request) && request.path == "/dump" && !may_dump())
      refuse(response, kTooMany, "somebody has asked for a dump within this second; ask again in a moment");
    else
      answer(request, response, feed);
    return httplib::Server::HandlerResponse::Handled;
  });
}

std::unique_ptr<PageServer> PageServer::on_port(PageSocket socket, const std::string& host, EventFeed& feed,
                                                PageBounds bounds) {
  auto access = std::make_unique<PageAccess>(host, port_of(socket), socket.machine);
  auto connections = make_connections(std::move(socket.listening), bounds);
  return std::unique_ptr<PageServer>(new PageServer(std::move(connections), std::move(access), feed, ""));
}

std::unique_ptr<PageServer> PageServer::on_socket(const std::string& path, EventFeed& feed,
                                                  const std::string& page) {
  auto connections = make_connections(listen_on_path(path), {});
  return std::unique_ptr<PageServer>(new PageServer(std::move(connections), nullptr, feed, page));
}

// Each is a folder on the disk. Called by the threads of connections.
bool PageServer::may_dump() {
  const auto now = monotonic_ns();
  std::int64_t last = dump_at_.load();
  return now >= last + kBetweenDumps && dump_at_.compare_exchange_strong(last, now);
}

PageServer::~PageServer() { stop(); }

// The threads of connections inherit that they get no signal.
void PageServer::start() {
  accepting_ = thread_without_signals([this] { connections_->serve(); });
}

void PageServer::stop() {
  connections_->end();
  if (accepting_.joinable()) accepting_.join();
}

}  // namespace rueda
