#include "dataplane/port/dpdk/eal_telemetry.hpp"

#include <rte_telemetry.h>

#include <atomic>
#include <cerrno>
#include <string>

namespace mprdma::dataplane {

namespace {

std::atomic<EalTelemetry*> source{nullptr};

class Dictionary final : public TelemetryAnswer {
 public:
  explicit Dictionary(rte_tel_data* data) : outer_(data) { rte_tel_data_start_dict(data); }
  Dictionary(const Dictionary&) = delete;
  Dictionary& operator=(const Dictionary&) = delete;
  ~Dictionary() { end(); }

  void number(const char* name, uint64_t value) override {
    (void)rte_tel_data_add_dict_u64(current(), name, value);
  }
  void text(const char* name, const char* value) override {
    (void)rte_tel_data_add_dict_string(current(), name, value);
  }
  void begin(const char* name) override {
    end();
    name_ = name;
    inner_ = rte_tel_data_alloc();
    if (inner_ != nullptr) rte_tel_data_start_dict(inner_);
  }
  void end() override {
    if (inner_ == nullptr) return;
    // DPDK frees it, unless it did not take it.
    if (rte_tel_data_add_dict_container(outer_, name_.c_str(), inner_, 0) != 0) {
      rte_tel_data_free(inner_);
    }
    inner_ = nullptr;
  }

 private:
  rte_tel_data* current() { return inner_ != nullptr ? inner_ : outer_; }

  rte_tel_data* outer_;
  rte_tel_data* inner_ = nullptr;
  std::string name_;
};

int on_command(const char* command, const char* parameters, rte_tel_data* data) {
  EalTelemetry* telemetry = source.load(std::memory_order_acquire);
  if (telemetry == nullptr) return -ENOENT;
  Dictionary answer(data);
  return telemetry->answer(command, parameters != nullptr ? parameters : "", &answer) ? 0 : -EINVAL;
}

}  // namespace

void register_telemetry(EalTelemetry* telemetry) {
  source.store(telemetry, std::memory_order_release);
  for (const EalTelemetry::Command& command : telemetry->commands()) {
    (void)rte_telemetry_register_cmd(command.path, on_command, command.help);
  }
}

}  // namespace mprdma::dataplane
