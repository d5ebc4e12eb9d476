//! What was released and what it cost: an append-only, hash-chained ledger.
