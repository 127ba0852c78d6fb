/* A clock that can be set, for processes that preload this: the real one plus the number of seconds, an int64, that the
 * file named by TORTURE_CLOCK holds. Clocks that only run forward are left as they are. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t still = 0;
static volatile int64_t *step = &still;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void open_clock(void) {
    real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *name = getenv("TORTURE_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *place = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (place != MAP_FAILED) step = place;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (!real_clock_gettime) open_clock();
    int result = real_clock_gettime(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *step;
    return result;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return result;
}

time_t time(time_t *place) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (place) *place = exact.tv_sec;
    return exact.tv_sec;
}

/* The kernel goes by the real clock: what waits until a moment of ours (librdkafka does) must be told the real one. Moments of
 * clocks that only run forward are counted from the machine's start, and are smaller by far. */

static const time_t SINCE_1970 = 1000000000;

static struct timespec real(const struct timespec *until) {
    struct timespec moment = *until;
    if (moment.tv_sec > SINCE_1970) moment.tv_sec -= *step;
    return moment;
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
    static int (*wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!wait) {
#ifdef __x86_64__
        /* without its version the oldest one is found, for another layout of pthread_cond_t */
        *(void **)&wait = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
#else
        *(void **)&wait = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
#endif
    }
    const struct timespec moment = real(until);
    return wait(condition, mutex, &moment);
}

int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *until) {
    static int (*wait)(cnd_t *, mtx_t *, const struct timespec *);
    if (!wait) *(void **)&wait = dlsym(RTLD_NEXT, "cnd_timedwait");
    const struct timespec moment = real(until);
    return wait(condition, mutex, &moment);
}
