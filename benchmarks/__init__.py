"""amforest beside its peers, as ratios in one run: ``python -m benchmarks [--quick]``.

One thread for every numerical library, said here because it must be said before numpy is loaded.
"""

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"
