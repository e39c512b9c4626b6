"""From a recording to what it shows: figures for the report, and evidence for the rules' verdicts."""

from trainlint.probe.analysis.analysis import analyse
from trainlint.probe.analysis.trace_alone import analyse_traces

__all__ = ["analyse", "analyse_traces"]
