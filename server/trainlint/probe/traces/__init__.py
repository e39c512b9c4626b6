"""Kineto traces of a job, from the probe's own profiler window or recorded by somebody else."""

from trainlint.probe.traces.analysis import analyse
from trainlint.probe.traces.line_evidence import LineEvidence, line_evidence
from trainlint.probe.traces.reading import UnusableTraceError
from trainlint.probe.traces.trace_analysis import RankTrace, TraceAnalysis

__all__ = ["LineEvidence", "RankTrace", "TraceAnalysis", "UnusableTraceError", "analyse", "line_evidence"]
