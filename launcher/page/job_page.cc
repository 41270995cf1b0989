// SPDX-License-Identifier: Apache-2.0
#include "launcher/page/job_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <exception>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "core/base/number.h"
#include "launcher/page/jobs_folder.h"
#include "launcher/page/page_file.h"
#include "launcher/system/json_text.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;

constexpr auto kBetweenUpdates = 200ms;
constexpr auto kBetweenReports = 500ms;  // for a report that nobody looks at
constexpr auto kLinger = 3s;             // somebody may look again
constexpr auto kUntilData = 1s;          // a status waits for agents so long
constexpr auto kFarewell = 500ms;        // for those who watch the end
constexpr auto kBetweenAnswers = 50ms;   // of a status: whoever asks all the time leaves the loop its own

std::string event(const char* name, const nlohmann::json& data) {
  return fmt::format("event: {}\ndata: {}\n\n", name, json_text(data));
}

// Of a text such as 200mbit, in bytes per second; 0 where it is none.
double bytes_per_second(const std::string& rate) {
  const std::size_t digits = rate.find_first_not_of("0123456789.");
  if (digits == 0 || digits == std::string::npos) return 0;
  const std::string_view unit = std::string_view(rate).substr(digits);
  const double number = number_from<double>(std::string_view(rate).substr(0, digits)).value_or(0);
  if (unit == "kbit") return number * 125;
  if (unit == "mbit") return number * 125e3;
  if (unit == "gbit") return number * 125e6;
  return 0;
}

JobView::Facts facts_of(const LaunchOptions& options) {
  const std::chrono::duration<double> at = std::chrono::system_clock::now().time_since_epoch();
  return {.command = fmt::format("{}", fmt::join(options.command, " ")),
          .started_at = at.count(),
          .started = JobPage::Clock::now(),
          .elastic = options.elastic.least > 0,
          .card_limit = bytes_per_second(options.virtual_hosts.rate)};
}

}  // namespace

std::unique_ptr<JobPage> JobPage::of_job(const LaunchOptions& options, const std::vector<HostRanks>& hosts,
                                         Supervision supervision) {
  const bool writes = !options.report.file.empty() || !options.dump_folder.empty();
  if (!options.page.is_wanted && !writes) return nullptr;
  std::unique_ptr<JobPage> page(new JobPage(options, hosts, std::move(supervision)));
  if (options.page.is_wanted) page->serve(options);
  return page->on_port_ || page->on_socket_ || writes ? std::move(page) : nullptr;
}

JobPage::JobPage(const LaunchOptions& options, const std::vector<HostRanks>& hosts, Supervision supervision)
    : supervision_(std::move(supervision)),
      shows_line_(options.page.is_given || ::isatty(STDERR_FILENO) == 1),
      view_(facts_of(options)),
      dumps_(options.dump_folder,
             {.tell = [this](const agents::Message& message) { supervision_.tell(std::nullopt, message); },
              .facts = [this] { return facts_of_dump(); },
              .say =
                  [this](const std::string& text) {
                    supervision_.say("ruedarun: " + text);
                    view_.note_event("dump", -1, text, Clock::now());
                  }}),
      actions_({.tell = [this](const agents::Message& message) { supervision_.tell(std::nullopt, message); },
                .say = [this](const std::string& kind,
                              const std::string& text) { view_.note_event(kind, -1, text, Clock::now()); },
                .stop = supervision_.stop,
                .ranks = [this] { return view_.status(Clock::now()).at("ranks"); },
                .folder = std::filesystem::current_path().string(),
                .dump = [this](JobDumps::Done done) { dumps_.ask(std::move(done), Clock::now()); }}),
      report_{.path = options.report.file, .speeds = {}, .ended = {}} {
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    view_.add_host(hosts[host].host);
    for (const SlotInfo& slot : hosts[host].ranks) view_.add_rank(slot.rank, static_cast<int>(host));
  }
}

void JobPage::serve(const LaunchOptions& options) {
  const bool is_inside = options.virtual_hosts.count > 0;  // the socket has been made outside
  if (std::optional<PageSocket> socket = is_inside ? handed_page_socket() : page_socket(options))
    on_port_ = PageServer::on_port(std::move(*socket), options.page.host, feed_);
  const std::optional<std::string> folder = jobs_folder();
  if (!folder) return;
  socket_ = socket_of_job(*folder, ::getpid());
  ::unlink(socket_.c_str());  // of an earlier process with this number
  try {
    on_socket_ = PageServer::on_socket(socket_, feed_, on_port_ ? on_port_->url() : "");
  } catch (const std::system_error&) {
    socket_.clear();  // the path is too long, or the disk is full: --status does not find this job
  }
}

JobPage::~JobPage() {
  feed_.close();
  if (!socket_.empty()) ::unlink(socket_.c_str());
}

void JobPage::start() {
  for (std::unique_ptr<PageServer>* server : {&on_port_, &on_socket_}) {
    try {
      if (*server) (*server)->start();
    } catch (const std::system_error&) {  // there is no thread for it: the job runs without
      server->reset();
    }
  }
  if (!report_.path.empty()) begin_watch(Clock::now(), true);
}

std::chrono::milliseconds JobPage::Watch::interval() const {
  return is_for_report ? kBetweenReports : kBetweenUpdates;
}

std::string JobPage::line() const {
  return shows_line_ && on_port_ ? fmt::format("ruedarun: the page of this job is {}", on_port_->url()) : "";
}

void JobPage::note_ready(int host) {
  ++agents_;
  if (watch_) supervision_.tell(host, agents::Watch{static_cast<std::uint32_t>(watch_->interval().count())});
}

void JobPage::note_started(int host, const agents::Started& started) {
  view_.started(started.rank, host, started.process);
  dumps_.note_started(started.rank, host);
  actions_.note_started(started.rank, host);
}

void JobPage::note_ended(int rank, bool is_lost, const std::string& words) {
  actions_.note_ended(rank);
  if (is_lost) dumps_.on_occasion(words, Clock::now());
  view_.ended(rank, is_lost, words, Clock::now());
}

void JobPage::note_generation(const Generation& generation) {
  if (generation_ == generation.number) return;
  generation_ = generation.number;
  const std::vector<Worker> workers = generation.by_rank();
  view_.generation(generation.number, std::set<int>(workers.begin(), workers.end()), Clock::now());
}

void JobPage::hear(int host, const agents::Message& message) {
  const auto now = Clock::now();
  if (const auto* part = std::get_if<agents::AnswerPart>(&message)) {
    actions_.hear(host, *part);
    dumps_.hear(host, *part);
  }
  if (std::holds_alternative<agents::Stalled>(message)) dumps_.on_occasion("ranks wait for others", now);
  if (const auto* observed = std::get_if<agents::Observed>(&message)) {
    view_.hear(host, *observed, now);
    actions_.note_step(observed->rank, observed->step, now);
  }
  if (const auto* load = std::get_if<agents::HostLoad>(&message)) {
    view_.hear(host, *load, now);
    if (watch_) ++watch_->heard;
  }
}

DumpFacts JobPage::facts_of_dump() const {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  DumpFacts facts{.command = view_.job().at("command"),
                  .process = ::getpid(),
                  .reason = "",
                  .unix_seconds = now.count(),
                  .ranks = {}};
  for (const int rank : dumps_.ranks()) facts.ranks[rank] = supervision_.words_for(rank);
  return facts;
}

void JobPage::begin_watch(Clock::time_point now, bool is_for_report) {
  watch_ = Watch{.since = now, .is_for_report = is_for_report};
  if (is_for_report) watch_->until = Clock::time_point::max();
  due_ = now;
  supervision_.tell(std::nullopt, agents::Watch{static_cast<std::uint32_t>(watch_->interval().count())});
}

void JobPage::end_watch(Clock::time_point now) {
  if (!report_.path.empty()) return begin_watch(now, true);
  watch_.reset();
  due_.reset();
  supervision_.tell(std::nullopt, agents::Watch{0});
}

bool JobPage::has_fresh_data(Clock::time_point now) const {
  return watch_->heard >= 2 * agents_ || now >= watch_->since + kUntilData;
}

void JobPage::publish(Clock::time_point now) {
  const bool changed = view_.take_job_changed();
  const nlohmann::json update = view_.update(now);
  if (!report_.path.empty() && update.contains("progress")) {
    const nlohmann::json& progress = update["progress"];
    report_.speeds.add(progress["step"], progress["samples_per_s"], progress["step_ms"]);
  }
  if (watch_->is_for_report) return;  // a reader begins with a snapshot
  if (changed) feed_.publish(event("job", view_.job()));
  if (!update.is_null()) feed_.publish(event("update", update));
}

std::optional<JobPage::Clock::time_point> JobPage::next_time() const {
  const auto dump = dumps_.next_time();
  return due_ && dump ? std::min(*due_, *dump) : due_ ? due_ : dump;
}

void JobPage::act(Clock::time_point now, bool is_asked) {
  dumps_.act(now);
  if (!is_asked && (!due_ || now < *due_)) return;
  const EventFeed::Wanted wanted = feed_.take_wanted();
  const bool wants = wanted.watched || wanted.inquiries.any() || actions_.is_busy();
  if (!watch_ && !wants) return;
  if (!watch_ || (watch_->is_for_report && wants)) begin_watch(now, false);
  if (wants) watch_->until = now + kLinger;
  if (now >= *due_) {
    publish(now);
    due_ = now + watch_->interval();
  }
  if (wanted.snapshot) {
    publish(now);  // what is in there counts as told
    feed_.give_snapshot(event("job", view_.job()) + event("update", view_.everything(now)));
  }
  const bool is_fresh = has_fresh_data(now);
  if (is_fresh && (wanted.wants(Inquiry::status) || wanted.wants(Inquiry::metrics))) give_status(wanted, now);
  actions_.act(feed_, wanted, is_fresh, now);
  if (now >= watch_->until) end_watch(now);
}

void JobPage::give_status(const EventFeed::Wanted& wanted, Clock::time_point now) {
  const Clock::time_point next = watch_->answered + kBetweenAnswers;
  if (now < next) {
    due_ = std::min(*due_, next);
    return;
  }
  watch_->answered = now;
  publish(now);
  if (wanted.wants(Inquiry::status)) feed_.answer(Inquiry::status, json_text(view_.status(now)));
  if (wanted.wants(Inquiry::metrics)) feed_.answer(Inquiry::metrics, view_.metrics());
}

void JobPage::finish(int exit_status) {
  dumps_.finish();
  const auto now = Clock::now();
  view_.job_ended(exit_status, now);
  report_.ended = now;
  if (watch_) {
    watch_->answered = {};  // the last one who asks has no later moment
    act(now, true);         // it may end the watch
    if (watch_) publish(now);
    feed_.finish(now + kFarewell);
  }
  feed_.close();
  on_port_.reset();
  on_socket_.reset();
}

// Nothing that goes wrong here may change the end of the job.
std::string JobPage::write_report() {
  if (report_.path.empty()) return "";
  try {
    nlohmann::json update = view_.everything(report_.ended);
    update["measured"] = report_.speeds.as_json();
    write_page(report_.path,
               page_file({{"kind", "job"}, {"job", view_.job()}, {"update", std::move(update)}}));
  } catch (const std::exception& error) {
    return fmt::format("ruedarun: there is no report: {}", error.what());
  }
  return fmt::format("ruedarun: the report of this job is {}", report_.path);
}

}  // namespace rueda
