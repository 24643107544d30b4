"""The requirements of a run on a machine: jars, Toxiproxy's server, class archives, memory."""
