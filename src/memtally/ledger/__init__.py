"""The usage log on disk: append, read, seal. Knows nothing of OpenTelemetry.

``writer.LogWriter`` appends whole lines; ``reader.open_logs`` and ``reader.open_segments`` read them
back, damaged or not; ``layout.segments`` names the files that make up one log. Import from the modules:
a process that only appends must not load the reader.
"""
