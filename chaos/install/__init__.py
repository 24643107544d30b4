"""What a machine must have before a run: jars, Toxiproxy's server, class archives, memory."""
