"""A report in a notebook: the verdicts and what matters most, the tables, and the sections folded below them."""

from tracekit import notebook
from tracekit.report import text
from tracekit.report.model import Report
from tracekit.report.section import Section
from tracekit.report.sections.sections import important


def html(report: Report) -> str:
    """The report as one output of a notebook, without a figure: a notebook asks for this of itself, so it is quick."""
    lacking = [f"{one.title}: {one.lacking}" for one in report.sections if one.lacking]
    return notebook.block(
        notebook.heading("Report", report.headline),
        notebook.listed([f"{name}: {said}" for name, said in report.verdicts.items()]),
        notebook.heading("What matters most"),
        notebook.listed(important(report.sections), numbered=True),
        *(notebook.table(*table) for table in text.tables(report)[:2]),
        *(notebook.folded(table[0], notebook.table("", *table[1:])) for table in text.tables(report)[2:]),
        notebook.sentence(text.compared(report)),
        *(_section(one) for one in report.sections if not one.lacking),
        notebook.folded("Not in this report", notebook.listed(lacking)) if lacking else "",
        notebook.noted(report.notes),
    )


def _section(section: Section) -> str:
    tables = "\n".join(notebook.table(*table) for table in section.tables)
    return notebook.folded(section.title, notebook.listed(section.said) + tables)
