// Commands of DPDK's telemetry socket, for a program whose EAL has one (mprdmad). The module that
// links DPDK calls an object of the program, so that the program itself needs no DPDK.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace mprdma::dataplane {

// Takes an answer: a dictionary, whose values may be dictionaries of values. A dictionary holds 256
// entries at most; further ones are dropped.
class TelemetryAnswer {
 public:
  virtual void number(const char* name, uint64_t value) = 0;
  virtual void text(const char* name, const char* value) = 0;
  virtual void begin(const char* name) = 0;
  virtual void end() = 0;

 protected:
  ~TelemetryAnswer() = default;
};

// Called by DPDK's threads, several at a time, until the process ends: never destroyed.
class EalTelemetry {
 public:
  struct Command {
    const char* path;  // "/mprdma/info"
    const char* help;
  };
  [[nodiscard]] virtual std::span<const Command> commands() const = 0;
  // `parameters`: the text after the path and a comma. False: there is no such object.
  virtual bool answer(std::string_view path, std::string_view parameters, TelemetryAnswer* out) = 0;

 protected:
  ~EalTelemetry() = default;
};

// Requires: EAL runs. Once in a process.
void register_telemetry(EalTelemetry* telemetry);

}  // namespace mprdma::dataplane
