// SPDX-License-Identifier: Apache-2.0
// Each check of a host and of a job: facts without a fault, and with a planted one.
#include "launcher/doctor/checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "tests/unit/launcher/doctor/facts.h"

namespace rueda {
namespace {

using State = Finding::State;

std::vector<Finding> of_check(const std::vector<Finding>& all, const std::string& check) {
  std::vector<Finding> found;
  std::ranges::copy_if(all, std::back_inserter(found),
                       [&](const Finding& each) { return each.check == check; });
  return found;
}

// The facts of h1 of two hosts are changed. Then this check has a finding of that state on h1, with these
// words, and no other check has one that is not ok, and no finding is without a host.
struct Fault {
  std::string check;
  std::function<void(Examination&)> plant;
  State state;
  std::string words;
  std::string remedy;
};

agents::HostFacts& facts(Examination& job) { return *job.hosts[1].facts; }

std::vector<Fault> faults_of_memory_and_cores() {
  using Job = Examination&;
  return {
      {"shared memory", [](Job job) { facts(job).memory.shm_problem = "shm_open: Permission denied"; },
       State::error, "shm_open: Permission denied", "mount -t tmpfs"},
      {"shared memory",
       [](Job job) { facts(job).memory.memfd_problem = "memfd_create: Function not implemented"; },
       State::error, "memfd_create", "RUEDA_SHM=0"},
      {"shared memory", [](Job job) { facts(job).memory.shm_bytes = 64 << 20; }, State::warning, "64 MiB",
       "--shm-size=8g"},
      {"shared memory", [](Job job) { facts(job).memory.shm_free = 1 << 20; }, State::warning, "1 MiB free",
       "ls -lS /dev/shm"},
      {"memory", [](Job job) { facts(job).memory.available = 100 << 20; }, State::warning,
       "100 MiB available", "ps aux"},
      {"memory",
       [](Job job) {
         facts(job).memory.cgroup_limit = 4ULL << 30;
         facts(job).memory.cgroup_used = 4ULL << 30;
       },
       State::warning, "control group allows 4.0 GiB", "--mem"},
      {"huge pages", [](Job job) { facts(job).memory.huge_pages = "never"; }, State::warning, "are off",
       "echo madvise"},
      {"cores", [](Job job) { facts(job).cores.cgroup_millicores = 1500; }, State::warning, "the time of 1.5",
       "--cpuset-cpus"},
      {"cores", [](Job job) { job.hosts[1].ranks = 9; }, State::warning, "9 ranks", "-H HOST:RANKS"},
      {"clock source", [](Job job) { facts(job).cores.clock_source = "hpet"; }, State::warning, "hpet",
       "echo tsc"},
  };
}

std::vector<Fault> faults_of_limits() {
  using Job = Examination&;
  return {
      {"open files",
       [](Job job) {
         facts(job).processes.open_files = {64, 64};
       },
       State::error, "64 files", "`* hard nofile 65536`"},
      {"open files",
       [](Job job) {
         job.hosts[0].ranks = 0;
         job.hosts[1].ranks = 100;
         facts(job).cores.usable = facts(job).cores.physical = 100;
         job.hosts[0].facts->cores = facts(job).cores;
         facts(job).processes.open_files = {1024, 1024};
       },
       State::error, "this job may need 1664", "ulimit -Hn"},
      {"processes",
       [](Job job) {
         facts(job).processes.is_root = true;
         facts(job).processes.cgroup_limit = 100;
         facts(job).processes.cgroup_used = 60;
       },
       State::warning, "control group allows 100 processes and threads, and has 60", "--pids-limit"},
      {"processes",
       [](Job job) {
         facts(job).processes.processes = {100, 100};
         facts(job).processes.threads_of_user = 98;
       },
       State::error, "100 processes and threads, and has 98", "ulimit -u"},
      {"processes",
       [](Job job) {
         facts(job).processes.processes = {200, 200};
       },
       State::warning, "200 processes", "ulimit -u"},
      {"locked memory",
       [](Job job) {
         facts(job).network.infiniband = 1;
         facts(job).processes.locked_memory = {64 << 20, 64 << 20};
       },
       State::warning, "64 MiB", "memlock unlimited"},
      {"left files",
       [](Job job) {
         facts(job).processes.left_files = {"/dev/shm/mpich_shm_1", "/dev/shm/torch_a b"};
         facts(job).processes.left_count = 2;
         facts(job).processes.left_bytes = 3 << 20;
       },
       State::warning, "2 files of jobs take 3 MiB of /dev/shm, and no process that can be seen",
       "rm /dev/shm/mpich_shm_1 '/dev/shm/torch_a b'"},
      {"left files",
       [](Job job) {
         facts(job).processes.sees_all = false;
         facts(job).processes.left_files = {"/dev/shm/mpich_shm_1"};
         facts(job).processes.left_count = 1;
       },
       State::warning, "uses it", "`lsof /dev/shm/mpich_shm_1` on the host of the container"},
  };
}

std::vector<Fault> faults_of_names_and_programs() {
  using Job = Examination&;
  return {
      {"names",
       [](Job job) {
         facts(job).network.names[0] = {"h0", {}, "Name or service not known"};
       },
       State::warning, "no address of h0 (Name or service not known)", "`10.77.0.1 h0`"},
      {"names", [](Job job) { facts(job).network.names[0].addresses = {"127.0.1.1"}; }, State::error,
       "takes h0 for 127.0.1.1", "Replace the line `127.0.1.1 h0` by `10.77.0.1 h0`"},
      {"names", [](Job job) { facts(job).network.names_left = 2; }, State::warning,
       "Names take long here (2 not looked up)", "resolv.conf"},
      {"network cards", [](Job job) { facts(job).network.absent_cards = {"ib0"}; }, State::error,
       "no network card ib0", "ip link set ib0 up"},
      {"network cards", [](Job job) { facts(job).network.cards[1].port = 0; }, State::error,
       "Nothing can listen at 10.77.1.2 (eth1)", "RUEDA_RAILS"},
      {"MTU", [](Job job) { facts(job).network.cards[1].mtu = 9000; }, State::warning,
       "1500 bytes of eth1 of h0; 9000 bytes of eth1 of h1", "ping -M do -s 8972"},
      {"examination", [](Job job) { facts(job).problems = {"names: cannot fork"}; }, State::warning,
       "could not be examined: names: cannot fork", "dmesg"},

      {"names", [](Job job) { facts(job).network.names[1].addresses = {"127.0.1.1"}; }, State::warning,
       "takes h1 for 127.0.1.1", "`10.77.0.2 h1`"},
      {"network cards", [](Job job) { facts(job).network.cards.clear(); }, State::error, "No network card",
       "ip link set"},
      {"program", [](Job job) { facts(job).software.folder_problem = "No such file or directory"; },
       State::error, "/my jobs cannot be used (No such file or directory)", "mkdir -p '/my jobs'"},
      {"program", [](Job job) { facts(job).software.program_problem = "there is no program 'x'"; },
       State::error, "no program 'x'", "same path"},
      {"Python", [](Job job) { facts(job).software.python_problem = "torch: libc10.so: cannot open"; },
       State::error, "libc10.so", "python3 -c"},
  };
}

std::vector<Fault> faults_of_all_hosts() {
  using Job = Examination&;
  return {
      {"versions", [](Job job) { facts(job).software.rueda = "0.2.0"; }, State::error,
       "Rueda is 0.1.0 on h0; 0.2.0 on h1", "Install the same"},
      {"versions", [](Job job) { facts(job).software.python_torch = "2.8.0"; }, State::error,
       "torch is none on h0; 2.8.0 on h1", "Install the same"},
      {"versions", [](Job job) { facts(job).software.devices = {"[X] CUDA 13.0 (8 devices)"}; },
       State::warning, "devices is none on h0; [X] CUDA 13.0 (8 devices) on h1", "Install the same"},
      {"versions",
       [](Job job) {
         facts(job).software.python_built = "2.8.0";
         job.hosts[0].facts->software.python_built = "2.9.1";
       },
       State::error, "the torch of Rueda's Python module is 2.8.0 on h1; 2.9.1 on h0", "Install"},
      {"equal cores", [](Job job) { facts(job).cores.usable = facts(job).cores.physical = 6; },
       State::warning, "6 on h1; 8 on h0", "-H HOST:RANKS"},
      {"clocks",
       [](Job job) {
         job.hosts[1].clock = ClockDifference{-2'000'000'000, 50'000};
       },
       State::warning, "2000.0 ms behind of ruedarun's (within 0.05 ms)", "set-ntp"},
      {"clocks",
       [](Job job) {
         job.hosts[1].clock = ClockDifference{90'000'000'000, 50'000};
       },
       State::error, "ahead of", "set-ntp"},
      {"hosts",
       [](Job job) {
         job.hosts[1].facts.reset();
         job.hosts[1].silence = "ruedarun cannot be started there.";
         job.hosts[1].remedy = "Install Rueda there.";
         job.tried.clear();
         job.links.clear();
       },
       State::error, "cannot be started", "Install Rueda"},
  };
}

std::vector<Fault> faults() {
  std::vector<Fault> all;
  for (const auto& some : {faults_of_memory_and_cores(), faults_of_limits(), faults_of_names_and_programs(),
                           faults_of_all_hosts()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

Examination job_with_program() {
  Examination job = good_job(2);
  job.folder = "/my jobs";
  job.program = {"python3", "train.py"};
  return job;
}

TEST(Checks, FindNothingOnGoodHosts) {
  const std::vector<Finding> all = findings_of(job_with_program());
  for (const Finding& each : all) {
    EXPECT_EQ(each.state, State::ok) << each.sentence;
    EXPECT_TRUE(each.remedy.empty()) << each.remedy;
    EXPECT_FALSE(each.hosts.empty()) << each.sentence;
    EXPECT_TRUE(each.sentence.ends_with(".")) << each.sentence;
  }
  EXPECT_FALSE(has_error(all));
  EXPECT_EQ(of_check(all, "shared memory").size(), 2u);
}

TEST(Checks, FindEachPlantedFaultAndNoOther) {
  for (const Fault& fault : faults()) {
    Examination job = job_with_program();
    fault.plant(job);
    bool found = false;
    for (const Finding& each : findings_of(job)) {
      if (each.state == State::ok) continue;
      const bool is_it = each.check == fault.check && each.state == fault.state &&
                         each.sentence.find(fault.words) != std::string::npos &&
                         each.remedy.find(fault.remedy) != std::string::npos &&
                         std::ranges::find(each.hosts, "h1") != each.hosts.end();
      found |= is_it;
      EXPECT_TRUE(is_it) << fault.check << ": " << each.check << ", " << each.sentence << " " << each.remedy;
    }
    EXPECT_TRUE(found) << fault.check << ", " << fault.words;
  }
}

// A check without a fault above could be left out unnoticed.
TEST(Checks, AllHaveAFaultOrSayWhatIsThere) {
  std::set<std::string> seen{"core files", "libraries", "connections", "bandwidth",
                             "card speed", "latency",   "links"};
  for (const Fault& fault : faults()) seen.insert(fault.check);
  for (const HostCheck& check : host_checks())
    EXPECT_TRUE(seen.contains(std::string(check.name))) << check.name;
  for (const JobCheck& check : job_checks())
    EXPECT_TRUE(seen.contains(std::string(check.name))) << check.name;
}

TEST(Checks, NameTheLibraries) {
  Examination job = good_job(1);
  facts(job = good_job(2)).software.devices = {"[ ] NCCL (not built)"};
  const std::vector<Finding> found = of_check(findings_of(job), "libraries");
  EXPECT_TRUE(std::ranges::any_of(
      found, [](const Finding& each) { return each.sentence == "Without NCCL (not built)."; }));
  facts(job).software.mpi = "cannot be loaded: libmpi.so.12";
  for (const Finding& each : of_check(findings_of(job), "libraries")) EXPECT_EQ(each.state, State::ok);
  job.network = "mpi";
  EXPECT_TRUE(std::ranges::any_of(of_check(findings_of(job), "libraries"), [](const Finding& each) {
    return each.state == State::warning && each.sentence.find("libmpi.so.12") != std::string::npos;
  }));
}

TEST(Checks, OfAHostAloneSayNothingOfOthers) {
  const std::vector<Finding> all = findings_of(good_job(1));
  for (const char* check : {"names", "clocks", "connections", "links", "equal cores"})
    EXPECT_TRUE(of_check(all, check).empty()) << check;
}

TEST(Checks, RootHasNoLimitOfProcesses) {
  Examination job = good_job(1);
  job.hosts[0].facts->processes.processes = {10, 10};
  job.hosts[0].facts->processes.is_root = true;
  EXPECT_EQ(of_check(findings_of(job), "processes").front().state, State::ok);
}

TEST(Checks, NamesThatNeedNoLookUpAreLeftOut) {
  Examination job = good_job(2);
  job.hosts[0].name = "10.77.0.1";
  facts(job).network.names[0] = {"10.77.0.1", {"127.0.0.1"}, ""};
  for (const Finding& each : of_check(findings_of(job), "names")) EXPECT_EQ(each.state, State::ok);
}

TEST(Checks, ProcessesRaiseTheirLimitOfOpenFiles) {
  Examination job = good_job(2);
  for (ExaminedHost& host : job.hosts) {
    host.facts->processes.open_files = {1024, 4096};
    host.facts->cores.usable = host.facts->cores.physical = 128;
    host.ranks = 128;
  }
  EXPECT_EQ(of_check(findings_of(job), "open files").front().state, State::ok);
  for (ExaminedHost& host : job.hosts) host.ranks = 0, host.facts->processes.open_files = {256, 256};
  EXPECT_EQ(of_check(findings_of(job), "open files").front().state, State::ok);
}

TEST(Checks, LimitsThatHarmNothingAreNoWarnings) {
  Examination job = good_job(2);
  facts(job).memory.huge_pages = "never";
  facts(job).processes.in_container = true;
  facts(job).cores.cgroup_millicores = 4000;
  job.hosts[1].ranks = 4;
  job.has_slots = true;
  facts(job).cores.usable = facts(job).cores.physical = 6;
  for (const Finding& each : findings_of(job)) EXPECT_EQ(each.state, State::ok) << each.sentence;
  job.hosts[1].ranks = 5;
  EXPECT_EQ(of_check(findings_of(job), "cores").back().state, State::warning);
}

TEST(Checks, AModuleThatIsNotInstalledHasTheVersionOfRuedarun) {
  Examination job = good_job(2);
  facts(job).software.python_rueda = agents::kNotInstalled;
  job.hosts[0].facts->software.python_rueda = "0.1.0";
  EXPECT_EQ(of_check(findings_of(job), "versions").front().state, State::ok);
  job.hosts[0].facts->software.python_rueda = "0.2.0";
  EXPECT_EQ(of_check(findings_of(job), "versions").front().state, State::error);
}

}  // namespace
}  // namespace rueda
