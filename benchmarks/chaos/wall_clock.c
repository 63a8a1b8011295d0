/* A wall clock that is off by what a file says, for a process and all that it starts (LD_PRELOAD).

   A namespace has a monotonic clock of its own, and no wall clock. The file WALL_CLOCK_FILE holds one signed number of
   nanoseconds in eight bytes and is mapped, so that a step shows at once. Sleeps and the monotonic clock stay as they are,
   and so do waits until a moment of the wall clock, which then last as much longer or shorter; where the file can't be
   read the clock is the machine's. (libfaketime 0.9.10, told to leave the monotonic
   clock alone, makes every clock_nanosleep of CPython 3.11 fail with EINVAL.) */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000LL

static const volatile int64_t *ahead_ns;
static int (*real_clock)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("WALL_CLOCK_FILE");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  if (mapped != MAP_FAILED) ahead_ns = mapped;
  close(file);
}

int clock_gettime(clockid_t which, struct timespec *now) {
  if (!real_clock) real_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int failed = real_clock(which, now);
  if (failed || !ahead_ns || (which != CLOCK_REALTIME && which != CLOCK_REALTIME_COARSE)) return failed;
  int64_t at_ns = now->tv_sec * SECOND_NS + now->tv_nsec + *ahead_ns;
  now->tv_sec = at_ns / SECOND_NS;
  now->tv_nsec = at_ns % SECOND_NS;
  return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  (void)zone;
  struct timespec at;
  if (clock_gettime(CLOCK_REALTIME, &at)) return -1;
  now->tv_sec = at.tv_sec;
  now->tv_usec = at.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *now) {
  struct timespec at;
  if (clock_gettime(CLOCK_REALTIME, &at)) return (time_t)-1;
  if (now) *now = at.tv_sec;
  return at.tv_sec;
}
