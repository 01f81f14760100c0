// Bytes per second of the ICRC, by length: on a frame's way through an ethdev it is computed at
// each end.
//
//   icrc_speed [--benchmark_filter=REGEX] [--benchmark_format=json] ..   options of Google
//   Benchmark
#include <benchmark/benchmark.h>

#include <vector>

#include "wire/icrc.hpp"

namespace mprdma::wire {
namespace {

void update(benchmark::State& state) {
  const std::vector<unsigned char> bytes(static_cast<size_t>(state.range(0)), 0x5a);
  uint32_t crc = icrc_init();
  for (auto _ : state) {
    crc = icrc_update(crc, bytes);
    benchmark::DoNotOptimize(crc);
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(update)->Arg(54)->Arg(64)->Arg(256)->Arg(1024)->Arg(4096);

}  // namespace
}  // namespace mprdma::wire

BENCHMARK_MAIN();
