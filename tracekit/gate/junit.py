"""The results of rules as JUnit XML, which CI systems show beside those of tests.

It is valid by the two schemas in use: that of Ant's task (windyroad/JUnit-Schema) and Jenkins' junit-10.xsd.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from xml.etree import ElementTree as Xml

from tracekit.gate.check import CheckResult, Outcome
from tracekit.units import revealed

# What XML 1.0 does not hold.
_NO_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# The element of what is no pass: a rule that cannot be told is no failure of the program, and no pass either.
_ELEMENTS: Mapping[Outcome, str] = {
    Outcome.BROKEN: "failure",
    Outcome.UNKNOWN: "error",
    Outcome.INCONCLUSIVE: "error",
}


def junit(result: CheckResult, now: datetime) -> str:
    """One test suite with one test case a rule, as text; `now` is when it was checked."""
    counts = {
        f"{element}s": str(sum(_ELEMENTS.get(each.outcome) == element for each in result.results))
        for element in ("failure", "error")
    }
    tests = str(len(result.results))
    root = Xml.Element("testsuites")
    suite = Xml.SubElement(
        root,
        "testsuite",
        {
            "name": "tracekit check",
            "package": "tracekit",
            "id": "0",
            "tests": tests,
            **counts,
            "time": "0",
            "timestamp": f"{now:%Y-%m-%dT%H:%M:%S}",
            "hostname": "localhost",
        },
    )
    properties = Xml.SubElement(suite, "properties")
    Xml.SubElement(properties, "property", {"name": "source", "value": _xml(result.source or "a report")})
    for each in result.results:
        case = Xml.SubElement(suite, "testcase", {"name": _xml(each.rule), "classname": "tracekit.check", "time": "0"})
        if element := _ELEMENTS.get(each.outcome):
            problem = Xml.SubElement(case, element, {"type": str(each.outcome), "message": _xml(each.found)})
            problem.text = _xml(f"{each.outcome}: {each.text}")
    Xml.SubElement(suite, "system-out").text = _xml("\n".join(f"{it.outcome}: {it.text}" for it in result.results))
    Xml.SubElement(suite, "system-err").text = _xml("\n".join(result.notes)) or None
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, "unicode") + "\n"


def _xml(text: str) -> str:
    return _NO_XML.sub("\ufffd", revealed(text))
