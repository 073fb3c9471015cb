// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Each run by mpirun alone, as three ranks that initialize MPI themselves.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <catch2/catch.hpp>

#include <cstdint>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/core/error.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/transport/mpi.hpp>

using namespace rubato;
using Catch::Contains;

namespace {

void initialize_mpi(int threads) {
  int granted = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, threads, &granted);
  REQUIRE(granted == threads);
}

void count_to(std::int64_t last) {
  cluster c{mpi{}, bsp{}, dense<std::int64_t, sum>{.rows = 1}};
  c.run([&](auto& w) {
    for (; w.clock().value() < last; w.step()) w.push(std::vector<std::int64_t>{1});
  });
  if (c.runtime().has_workers()) CHECK(c.parameters().front() == last);
}

}  // namespace

TEST_CASE("mpi: a program's own MPI goes on beside Rubato's, and ends with the program's own MPI_Finalize",
          "[.][mpi]") {
  initialize_mpi(MPI_THREAD_SERIALIZED);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int const sent = 7 * rank;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Isend(&sent, 1, MPI_INT, (rank + 1) % 3, 0, MPI_COMM_WORLD, &request);
  count_to(5);
  int got = -1;
  MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(got == 7 * ((rank + 2) % 3));
  count_to(3);
  MPI_Finalize();
  CHECK_THROWS_WITH(count_to(1), Contains("must end before MPI_Finalize"));
}

TEST_CASE("mpi: fewer threads than a process has are refused, with what to do", "[.][mpi]") {
  initialize_mpi(MPI_THREAD_FUNNELED);
  CHECK_THROWS_WITH(count_to(1), Contains("one thread only") && Contains("ask MPI_Init_thread"));
  MPI_Finalize();
}
