// Connection management (abi/mprdma_abi_cm.h): the agent of this engine, or of mprdmad.
#include <cerrno>

#include "abi/mprdma_abi_cm.h"
#include "dataplane/engine/command_io.hpp"
#include "dataplane/engine/commands.hpp"

namespace mprdma::dataplane {

int Commands::cm_open(const mprdma_abi_client* client, const Call& call) {
  mprdma_abi_cm_open in;
  if (!read_input(call, &in)) return EINVAL;
  Daemon* daemon = worker_.port().daemon();
  return daemon != nullptr ? daemon->cm_open(client, in) : worker_.nic_part().cm().open(client, in);
}

int Commands::cm_by_daemon(Daemon& daemon, const mprdma_abi_client* client, const Call& call) {
  mprdma_abi_cm_command in;
  if (!read_input(call, &in) || call.out_bytes < sizeof(mprdma_abi_cm_result)) return EINVAL;
  mprdma_abi_cm_result out{};
  const int error = daemon.cm_execute(client, in, &out);
  return error != 0 ? error : write_output(call, out);
}

int Commands::cm(const mprdma_abi_client* client, const Call& call, Time now) {
  mprdma_abi_cm_command in;
  if (!read_input(call, &in) || call.out_bytes < sizeof(mprdma_abi_cm_result)) return EINVAL;
  mprdma_abi_cm_result out{};
  const int error = worker_.nic_part().cm().execute(client, in, &out, now);
  worker_.nic_part().settle_cm(now);
  return error != 0 ? error : write_output(call, out);
}

}  // namespace mprdma::dataplane
