//! What each provider family's answers mean: pure functions over status, headers and bytes.
