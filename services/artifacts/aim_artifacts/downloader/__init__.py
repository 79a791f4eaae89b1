"""The downloader: the program in the Job containers of an artifact (artifacts.md section 15).

It shares with the artifacts service the exit codes and the file selection, and nothing else.
"""
