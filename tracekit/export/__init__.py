"""Write a trace for other tools: a timeline for Perfetto, tables for everything that reads tables."""

# Heavy imports wait in the modules: the command line completes these words.
PERFETTO = "perfetto"
FORMATS = (PERFETTO, "parquet", "csv", "json", "arrow")
FRAMES = ("events", "spans", "launches", "syncs", "ops", "operands", "devices", "hosts")
