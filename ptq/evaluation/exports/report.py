"""`Report`: the figures of a quantization, and what they can be exported to."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

from ptq.core.errors import UsageError
from ptq.evaluation.exports.flat_metrics import flatten_metrics
from ptq.evaluation.exports.html_summary import render_fragment
from ptq.evaluation.exports.markdown import render_markdown
from ptq.evaluation.exports.summary import summarize_report
from ptq.evaluation.report.report_data import ReportData

ReportTable = Literal["tensors", "nodes", "forms"]


class Report(ReportData):
    """Report of one quantization; see `ReportData` for its figures.

    It is plain data: it can be pickled, copied and compared.
    """

    def metrics(self) -> dict[str, float]:
        """Figures by flat, stable names, for experiment trackers; see `flatten_metrics` for the names."""
        return flatten_metrics(self)

    def to_markdown(self) -> str:
        """A short report in GitHub's Markdown: accuracy, size, speed, warnings, worst tensors."""
        return render_markdown(summarize_report(self))

    def to_html(self) -> str:
        """The whole report as one self-contained HTML page."""
        from ptq.evaluation.presentation.html import render_page  # 0.02 s

        return render_page(self)

    def to_frame(self, table: ReportTable = "tensors") -> Any:
        """One table of the report as a pandas data frame.

        Args:
            table: ``tensors`` or ``nodes``, one row each; ``forms``, one row for each form and output.

        Raises:
            UsageError: pandas is not installed, or there is no such table.
        """
        try:
            import pandas
        except ImportError:
            raise UsageError(
                "to_frame needs pandas; install it with: pip install onnx-ptq[pandas]"
            ) from None
        return pandas.DataFrame(self._rows(table))

    def _rows(self, table: ReportTable) -> list[dict[str, Any]]:
        if table == "tensors":
            return [asdict(row) for row in self.tensors]
        if table == "nodes":
            return [asdict(row) for row in self.nodes]
        if table != "forms":
            raise UsageError(f"table {table!r} is unknown; choose one of tensors, nodes, forms")
        if self.evaluation is None:
            return []
        rows: list[dict[str, Any]] = []
        for name, form in self.evaluation.forms.items():
            accuracy = {} if form.accuracy is None else asdict(form.accuracy)
            fidelities = {output: asdict(fidelity) for output, fidelity in form.outputs.items()}
            for output, fidelity in (fidelities or {self.evaluation.head: {}}).items():
                rows.append({"form": name, "output": output, **accuracy, **fidelity})
        return rows

    def __repr__(self) -> str:
        figures = self.metrics()
        shown = ", ".join(
            f"{name}={figures[name]:.4g}"
            for name in ("float_top1", "int8_top1", "int8_agreement", "int8_sqnr_db", "size_ratio")
            if name in figures
        )
        return f"Report(model={self.model[-60:]!r}, target={self.target!r}, form={self.form!r}, {shown})"

    def _repr_html_(self) -> str:
        return render_fragment(summarize_report(self))
