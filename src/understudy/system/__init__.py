"""What work runs on: tasks, threads, memory, progress, clusters, buckets, plug-ins, checks."""
