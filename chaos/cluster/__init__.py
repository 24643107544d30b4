"""The system under test: three brokers, Spark, Toxiproxy, and a proxy on every link between them."""
