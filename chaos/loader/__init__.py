"""The process that fills the source topic, and keeps a ledger of what was acknowledged."""
