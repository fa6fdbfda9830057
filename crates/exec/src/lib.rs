//! (being written)

/// Every child of a session.
#[derive(Clone, Default)]
pub struct Ledger {}
