"""The process that fills the source and keeps a ledger of what was acknowledged."""
