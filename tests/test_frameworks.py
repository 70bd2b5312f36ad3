"""The page of one experiment by several frameworks: a table for each phase that two of them have, reasons for dashes."""

import importlib.util
import re
from pathlib import Path

import pytest

from tests.frames import events, spans
from tests.frames import trace as make_trace
from tracekit.report.build import analyse

spec = importlib.util.spec_from_file_location("frameworks", Path(__file__).parents[1] / "docs" / "frameworks.py")
frameworks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(frameworks)
