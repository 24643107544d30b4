"""The loader: a process that fills the source topic, and keeps a ledger of outcomes."""
