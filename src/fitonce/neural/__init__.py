"""Neural taggers: a bidirectional LSTM under a CRF. Needs `pip install fitonce[neural]`.

tagger = fitonce.neural.train(training, validation, vectors=vectors)
data = tagger.labelled(training)                      # the frozen layers' scores
fit = fitonce.fit(fitonce.models.LinearChainCRF("scores"), data)
"""

from importlib.util import find_spec

_MISSING = [name for name in ("equinox", "optax") if find_spec(name) is None]
if _MISSING:
    raise ImportError(f"fitonce.neural needs {' and '.join(_MISSING)}: pip install 'fitonce[neural]'")

from fitonce.neural.crf_layer import Epoch, train_crf_layer  # noqa: E402
from fitonce.neural.network import Settings  # noqa: E402
from fitonce.neural.tagger import Tagger, load  # noqa: E402
from fitonce.neural.training import train  # noqa: E402

__all__ = ["Epoch", "Settings", "Tagger", "load", "train", "train_crf_layer"]
