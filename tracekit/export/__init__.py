"""Write a trace for other tools: a timeline for Perfetto, tables for everything that reads tables."""

# Heavy imports wait in the modules: the command line completes these words.
PERFETTO = "perfetto"
# What files of tables end in.
SUFFIXES = {"parquet": ".parquet", "csv": ".csv", "json": ".jsonl", "arrow": ".arrow"}
FORMATS = (PERFETTO, *SUFFIXES)
FRAMES = (
    *("events", "spans", "host_work", "launches", "syncs", "ops", "operands", "devices", "hosts", "losses"),
    "memory",
)
