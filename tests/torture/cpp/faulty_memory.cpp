// Makes an allocation of the amforest core fail: preloaded into a process (LD_PRELOAD).
//
//     faults_arm(n)        the n-th allocation from now on fails, counted from 1
//     faults_arm_from(n)   the n-th fails, and all after it
//     faults_disarm()      nothing fails any more; returns how many were counted
//     faults_site()        where the first failed one was requested, as an offset in the core
//
// What counts is memory that the core itself requests, by operator new, malloc and its kin, mmap or
// mremap, and threads that it starts: calls that return into _core*.so (a thread's returns into
// libstdc++, which starts it for the core). Python's, numpy's and others' are left alone.
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>

extern "C" {
// The C library's own, which need no dlsym.
void *__libc_malloc(std::size_t);
void *__libc_calloc(std::size_t, std::size_t);
void *__libc_realloc(void *, std::size_t);
void *__libc_memalign(std::size_t, std::size_t);
}

namespace {

constexpr long kNever = std::numeric_limits<long>::max();

struct Library {
    const char *name; // a part of its path
    std::uintptr_t base = 0, begin = 0, end = 0;

    bool holds(const void *address) const {
        const auto at = reinterpret_cast<std::uintptr_t>(address);
        return begin <= at && at < end;
    }
};
Library core{"/_core."}, standard{"/libstdc++.so"};

std::atomic<bool> armed{false};
std::atomic<long> counted{0};
std::atomic<long> first{kNever}, last{kNever}; // those that fail
std::atomic<std::uintptr_t> site{0};

int find(dl_phdr_info *info, std::size_t, void *) {
    for (Library *library : {&core, &standard}) {
        if (strstr(info->dlpi_name, library->name) == nullptr) continue;
        library->base = info->dlpi_addr;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
            const ElfW(Phdr) &part = info->dlpi_phdr[i];
            if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
            library->begin = info->dlpi_addr + part.p_vaddr;
            library->end = library->begin + part.p_memsz;
        }
    }
    return 0;
}

void arm(long from, long to) {
    dl_iterate_phdr(find, nullptr);
    counted = 0;
    site = 0;
    first = from;
    last = to;
    armed = true;
}

// Whether this call fails.
bool fails(const void *caller, bool is_thread = false) {
    if (!armed.load(std::memory_order_relaxed)) return false;
    if (!core.holds(caller) && !(is_thread && standard.holds(caller))) return false;
    const long n = ++counted;
    if (n < first || n > last) return false;
    std::uintptr_t none = 0;
    const Library &where = core.holds(caller) ? core : standard;
    site.compare_exchange_strong(none, reinterpret_cast<std::uintptr_t>(caller) - where.base);
    return true;
}

void *or_throw(void *memory) {
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}

void *no_memory() {
    errno = ENOMEM;
    return nullptr;
}

} // namespace

#define CALLER __builtin_return_address(0)

extern "C" {
void faults_arm(long n) { arm(n, n); }
void faults_arm_from(long n) { arm(n, kNever); }
long faults_disarm() {
    armed = false;
    return counted;
}
unsigned long faults_site() { return site; }

void *malloc(std::size_t size) { return fails(CALLER) ? no_memory() : __libc_malloc(size); }
void *calloc(std::size_t count, std::size_t size) {
    return fails(CALLER) ? no_memory() : __libc_calloc(count, size);
}
void *realloc(void *memory, std::size_t size) {
    return fails(CALLER) ? no_memory() : __libc_realloc(memory, size);
}
void *aligned_alloc(std::size_t alignment, std::size_t size) {
    return fails(CALLER) ? no_memory() : __libc_memalign(alignment, size);
}
int posix_memalign(void **memory, std::size_t alignment, std::size_t size) {
    void *const taken = fails(CALLER) ? nullptr : __libc_memalign(alignment, size);
    if (taken == nullptr) return ENOMEM;
    *memory = taken;
    return 0;
}

void *mmap(void *at, std::size_t size, int protection, int flags, int fd, off_t offset) {
    if (fails(CALLER)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return reinterpret_cast<void *>(syscall(SYS_mmap, at, size, protection, flags, fd, offset));
}

void *mremap(void *at, std::size_t before, std::size_t size, int flags, ...) {
    if (fails(CALLER)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    va_list more;
    va_start(more, flags);
    void *const to = (flags & MREMAP_FIXED) != 0 ? va_arg(more, void *) : nullptr;
    va_end(more);
    return reinterpret_cast<void *>(syscall(SYS_mremap, at, before, size, flags, to));
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *argument) {
    if (fails(CALLER, true)) return EAGAIN;
    static const auto real =
        reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
    return real(thread, attributes, start, argument);
}
}

// What they give is freed by free, as the standard library does.
void *operator new(std::size_t size) {
    return or_throw(fails(CALLER) ? nullptr : __libc_malloc(size == 0 ? 1 : size));
}
void *operator new[](std::size_t size) {
    return or_throw(fails(CALLER) ? nullptr : __libc_malloc(size == 0 ? 1 : size));
}
void *operator new(std::size_t size, const std::nothrow_t &) noexcept {
    return fails(CALLER) ? nullptr : __libc_malloc(size == 0 ? 1 : size);
}
void *operator new[](std::size_t size, const std::nothrow_t &) noexcept {
    return fails(CALLER) ? nullptr : __libc_malloc(size == 0 ? 1 : size);
}
void *operator new(std::size_t size, std::align_val_t alignment) {
    return or_throw(fails(CALLER) ? nullptr
                                  : __libc_memalign(static_cast<std::size_t>(alignment), size));
}
void *operator new[](std::size_t size, std::align_val_t alignment) {
    return or_throw(fails(CALLER) ? nullptr
                                  : __libc_memalign(static_cast<std::size_t>(alignment), size));
}
void *operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t &) noexcept {
    return fails(CALLER) ? nullptr : __libc_memalign(static_cast<std::size_t>(alignment), size);
}
void *operator new[](std::size_t size, std::align_val_t alignment,
                     const std::nothrow_t &) noexcept {
    return fails(CALLER) ? nullptr : __libc_memalign(static_cast<std::size_t>(alignment), size);
}
