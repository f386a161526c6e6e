"""The error that the points of a frontier are compared by: of logits where outputs are their probabilities.

A few undecided samples hold nearly all of the error of probabilities, so that it is chance which point has more.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ptq.core.decibels import to_error_db
from ptq.core.run_options import RunOptions
from ptq.data import Sample
from ptq.evaluation.runs.model_outputs import ModelOutputs
from ptq.optimization.error_energy import measure_energy, measure_error_energy
from ptq.rewrite.instrument.logits import build_logits_graph, find_common_cut
from ptq.solver.quantizer import QuantizedModel


class FrontierError:
    """Measures the SQNR of quantized models against the float model on some samples.

    Attributes:
        graph: The prepared float model, whose outputs are those that are compared.
    """

    def __init__(
        self, quantized: QuantizedModel, samples: Sequence[Sample], run: RunOptions
    ) -> None:
        """Run the float model.

        Args:
            quantized: The model with the most integers.
            samples: The samples to measure on.
            run: How the job runs.

        Raises:
            ModelError: ONNX Runtime does not take the model.
            DataError: It fails on a sample.
        """
        whole = quantized.calibrated_model.prepared.graph
        logits = build_logits_graph(whole)
        # pieces of a Concat are no outputs that can be compared one by one: nearly all boxes show background
        cut = find_common_cut([whole, quantized.quantized_graph])
        self._on_logits = len(cut) == len(logits.outputs) == len(whole.outputs)
        self.graph = logits if self._on_logits else whole
        self._samples, self._run = samples, run
        self._reference = list(ModelOutputs(self.graph, "result", run).run(samples))

    def measure(self, quantized: QuantizedModel) -> float:
        """The SQNR in dB: output energy over error energy, over all samples, its inverse averaged over outputs.

        Outputs that are not float or have no signal do not count. See `measure_error_energy` for outputs of another
        shape. Infinite without error.

        Raises:
            ModelError: ONNX Runtime does not take the model.
            DataError: It fails on a sample.
        """
        graph = quantized.quantized_graph
        outputs = ModelOutputs(
            build_logits_graph(graph) if self._on_logits else graph, "result", self._run
        )
        rows = [
            [
                (measure_energy(one), measure_error_energy(other, one))
                for one, other in zip(before, after, strict=True)
            ]
            for before, after in zip(self._reference, outputs.run(self._samples), strict=True)
        ]
        signal, noise = np.sum(rows, axis=0).T
        counted = signal > 0
        share = float((noise[counted] / signal[counted]).mean()) if counted.any() else 0.0
        return -to_error_db(share)
