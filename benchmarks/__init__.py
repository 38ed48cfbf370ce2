"""amforest compared with its peers, as ratios within one run: ``python -m benchmarks [--quick]``.

Every numerical library uses one thread, which must be set before numpy is imported.
"""

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"
