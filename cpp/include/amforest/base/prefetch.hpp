// A hint for the processor, which changes nothing.
#pragma once

#if defined(_MSC_VER) && defined(_M_X64)
#include <xmmintrin.h>
#endif

namespace amforest {

// Lets the processor fetch what will soon be read. A compiler that offers no such hint gives none.
inline void prefetch_line([[maybe_unused]] const void *address) {
#if defined(__GNUC__)
    __builtin_prefetch(address);
#elif defined(_MSC_VER) && defined(_M_X64)
    _mm_prefetch(static_cast<const char *>(address), _MM_HINT_T0);
#endif
}

} // namespace amforest
