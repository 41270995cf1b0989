// SPDX-License-Identifier: Apache-2.0
#include "bench/rueda_bench/subjects/reference.h"

#include <fmt/format.h>
#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

#include "bench/rueda_bench/workload/awake.h"
#include "bench/rueda_bench/workload/start_line.h"
#include "ops/link/launcher_environment.h"

namespace rueda::bench {
namespace {

std::optional<MPI_Datatype> type_of(DataType dtype) {
  switch (dtype) {
    case DataType::uint8: return MPI_UINT8_T;
    case DataType::int8: return MPI_INT8_T;
    case DataType::int16: return MPI_INT16_T;
    case DataType::int32: return MPI_INT32_T;
    case DataType::int64: return MPI_INT64_T;
    case DataType::float32: return MPI_FLOAT;
    case DataType::float64: return MPI_DOUBLE;
    default: return std::nullopt;
  }
}

void run(CollectiveBuffers& buffers) {
  const Collective& what = buffers.what();
  const MPI_Datatype type = *type_of(what.dtype);
  void* input = buffers.input().data;
  void* output = buffers.output().data;
  if (what.elements() > std::numeric_limits<int>::max())
    throw std::runtime_error("--against mpi: MPI counts less than 2^31 elements; give smaller --sizes");
  const int all = static_cast<int>(what.elements()), part = all / buffers.size();
  switch (what.operation) {
    case Operation::allreduce: MPI_Allreduce(MPI_IN_PLACE, output, all, type, MPI_SUM, MPI_COMM_WORLD); break;
    case Operation::broadcast: MPI_Bcast(output, all, type, kRoot, MPI_COMM_WORLD); break;
    case Operation::allgather: MPI_Allgather(input, part, type, output, part, type, MPI_COMM_WORLD); break;
    case Operation::reducescatter:
      MPI_Reduce_scatter_block(input, output, part, type, MPI_SUM, MPI_COMM_WORLD);
      break;
    case Operation::alltoall: MPI_Alltoall(input, part, type, output, part, type, MPI_COMM_WORLD); break;
    case Operation::reduce: MPI_Reduce(input, output, all, type, MPI_SUM, kRoot, MPI_COMM_WORLD); break;
    case Operation::gather: MPI_Gather(input, part, type, output, part, type, kRoot, MPI_COMM_WORLD); break;
    case Operation::scatter: MPI_Scatter(input, part, type, output, part, type, kRoot, MPI_COMM_WORLD); break;
    case Operation::message:
    case Operation::barrier:
    case Operation::join:
    case Operation::add_process_set:
    case Operation::remove_process_set: no_collective(what.operation);
  }
}

Rank size_of_world() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

// Whether all ranks stand on this one's host.
bool one_host() {
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  int here = 0;
  MPI_Comm_size(host, &here);
  MPI_Comm_free(&host);
  return here == size_of_world();
}

class MpiReference final : public Reference {
 public:
  // `begins`: MPI has not begun. It is started as Rueda starts it.
  explicit MpiReference(bool begins) : began_(begins && begin()) {}
  ~MpiReference() override {
    if (began_) MPI_Finalize();
  }
  MpiReference(const MpiReference&) = delete;
  MpiReference& operator=(const MpiReference&) = delete;

  bool has(const Collective& what) const override { return type_of(what.dtype).has_value(); }
  double seconds(CollectiveBuffers& buffers) override {
    StartLine::await(agreed_start());
    const auto begin = std::chrono::steady_clock::now();
    run(buffers);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    rest_awake();
    check(buffers);
    return seconds;
  }

 private:
  static bool begin() {
    int level = 0;
    return MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level) == MPI_SUCCESS;
  }

  // Returns when all are through; throws on all ranks.
  static void check(CollectiveBuffers& buffers) {
    std::uint64_t wrong = buffers.wrong(buffers.output().data);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    if (wrong > 0)
      throw std::runtime_error(fmt::format("--against mpi: {} elements of its result are wrong", wrong));
  }

  std::int64_t agreed_start() const {
    std::int64_t instant = start_.proposal();
    MPI_Allreduce(MPI_IN_PLACE, &instant, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    return instant;
  }

  const bool began_;
  const StartLine start_{one_host(), size_of_world()};
};

}  // namespace

std::unique_ptr<Reference> mpi_reference() {
  int started = 0;
  MPI_Initialized(&started);
  if (started == 0 && !rank_from_launcher())
    throw std::runtime_error("--against mpi needs ranks: ruedarun -np 2 rueda-bench ...");
  return std::make_unique<MpiReference>(started == 0);
}

Ranks::Ranks() {
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level);  // with locks short operations take longer
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
}

Ranks::~Ranks() { MPI_Finalize(); }

std::vector<std::string> Ranks::gather(const std::string& word) const {
  const int length = static_cast<int>(word.size());
  std::vector<int> lengths(static_cast<std::size_t>(size_)), begins;
  MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, MPI_COMM_WORLD);
  int end = 0;
  for (const int each : lengths) begins.push_back(std::exchange(end, end + each));
  std::string all(static_cast<std::size_t>(end), '\0');
  MPI_Allgatherv(word.data(), length, MPI_CHAR, all.data(), lengths.data(), begins.data(), MPI_CHAR,
                 MPI_COMM_WORLD);
  std::vector<std::string> words;
  for (std::size_t i = 0; i < lengths.size(); ++i)
    words.push_back(all.substr(static_cast<std::size_t>(begins[i]), static_cast<std::size_t>(lengths[i])));
  return words;
}

void Ranks::take_largest(std::vector<double>& values) const {
  MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, MPI_MAX,
                MPI_COMM_WORLD);
}

}  // namespace rueda::bench
