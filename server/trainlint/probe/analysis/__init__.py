"""From a recording to what it shows: figures for the report, and evidence for the rules' verdicts."""

from trainlint.probe.analysis.analysis import analyse

__all__ = ["analyse"]
