#include "dataplane/port/local_port_region.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <utility>

#include "base/check.hpp"

// Since Linux 5.1; older C libraries do not name it.
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace mprdma::dataplane::local {

namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr size_t kStatBlockBytes = 512;  // of st_blocks

// A new memfd of that size, or -1 and errno.
int make_memfd(size_t bytes) {
  const int fd = memfd_create("mprdma-local-port", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return -1;
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
  }
  return fd;
}

// After our own writable mapping exists: nobody maps it writable any more, nobody resizes it.
// Seals of the file; -1: it supports none.
int seal(int fd) {
  // An old kernel does not know this one; then the peer is trusted not to write.
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0 && errno != EINVAL) return -1;
  if (fcntl(fd, F_ADD_SEALS, kSeals) != 0) return -1;
  // Others are the kernel's own business: a sysctl adds F_SEAL_EXEC.
  const int seals = fcntl(fd, F_GET_SEALS);
  return seals < 0 ? -1 : seals & (kSeals | F_SEAL_FUTURE_WRITE);
}

}  // namespace

Mapping::Mapping(Mapping&& other) noexcept
    : address_(std::exchange(other.address_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (address_ != nullptr) munmap(address_, bytes_);
}

std::unique_ptr<OwnRegion> OwnRegion::create(Geometry geometry, uint32_t flags) {
  CHECK(geometry.sane());
  const size_t bytes = geometry.bytes();
  const int fd = make_memfd(bytes);
  if (fd < 0) return nullptr;
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  const int seals = address != MAP_FAILED ? seal(fd) : -1;
  if (seals < 0) {
    const int error = errno;
    if (address != MAP_FAILED) munmap(address, bytes);
    close(fd);
    errno = error;
    return nullptr;
  }
  madvise(address, bytes, MADV_DONTFORK);
  return std::unique_ptr<OwnRegion>(
      new OwnRegion(fd, seals, Mapping(address, bytes), geometry, flags));
}

OwnRegion::OwnRegion(int fd, int seals, Mapping mapping, Geometry geometry, uint32_t flags)
    : fd_(fd),
      seals_(seals),
      mapping_(std::move(mapping)),
      geometry_(geometry),
      header_(new (mapping_.at(0)) RegionHeader{}),
      tx_ring_(reinterpret_cast<std::atomic<uint64_t>*>(mapping_.at(Geometry::tx_ring_offset()))),
      return_ring_(
          reinterpret_cast<std::atomic<uint16_t>*>(mapping_.at(geometry.return_ring_offset()))),
      frames_(mapping_.at(geometry.frames_offset())) {
  header_->identity = {kRegionMagic,         kRegionVersion,        geometry.slots, geometry.stride,
                       geometry.large_slots, geometry.large_stride, flags};
}

OwnRegion::~OwnRegion() {
  close(fd_);
}

void OwnRegion::close_after_fork() {
  close(fd_);
  fd_ = -1;
}

std::unique_ptr<PeerRegion> PeerRegion::attach(int fd, int seals, bool all_there,
                                               const char** reason) {
  const auto refuse = [reason](const char* text) {
    *reason = text;
    return nullptr;
  };
  const int its = fcntl(fd, F_GET_SEALS);
  if (its < 0 || (its & seals) != seals) {
    return refuse("the peer's memory is not sealed");
  }
  // Asked after the seals, which only memory has: nothing else is touched.
  struct statfs kind {};
  if (fstatfs(fd, &kind) != 0 || kind.f_type != TMPFS_MAGIC) {
    return refuse("the peer's memory is not of the ordinary kind");
  }
  struct stat status {};
  Identity identity{};  // a private copy: what is checked is what is used
  if (fstat(fd, &status) != 0 || pread(fd, &identity, sizeof identity, 0) != sizeof identity) {
    return refuse("the peer's memory is too small");
  }
  const Geometry geometry{identity.slots, identity.stride, identity.large_slots,
                          identity.large_stride};
  if (identity.magic != kRegionMagic) return refuse("the peer's memory is no LocalPort region");
  if (identity.version != kRegionVersion) {
    return refuse("the peer speaks another version of LocalPort");
  }
  if (!geometry.sane()) return refuse("the peer's memory has an impossible geometry");
  const size_t bytes = geometry.bytes();
  if (static_cast<size_t>(status.st_size) != bytes) {
    return refuse("the peer's memory is not as large as its geometry says");
  }
  if (all_there && static_cast<size_t>(status.st_blocks) * kStatBlockBytes < bytes) {
    return refuse("the peer's memory is not all there");
  }
  void* address = mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (address == MAP_FAILED) return refuse("the peer's memory cannot be mapped");
  madvise(address, bytes, MADV_DONTFORK);
  return std::unique_ptr<PeerRegion>(
      new PeerRegion(Mapping(address, bytes), geometry, identity.flags));
}

PeerRegion::PeerRegion(Mapping mapping, Geometry geometry, uint32_t flags)
    : mapping_(std::move(mapping)),
      geometry_(geometry),
      flags_(flags),
      header_(reinterpret_cast<const RegionHeader*>(mapping_.at(0))),
      tx_ring_(
          reinterpret_cast<const std::atomic<uint64_t>*>(mapping_.at(Geometry::tx_ring_offset()))),
      return_ring_(reinterpret_cast<const std::atomic<uint16_t>*>(
          mapping_.at(geometry.return_ring_offset()))),
      frames_(mapping_.at(geometry.frames_offset())) {}

}  // namespace mprdma::dataplane::local
