//! An account's quota windows: what was observed, when, and how long it stays true.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::clock::Wall;
use crate::id::Window;
use crate::outcome::QuotaStatus;

/// All that is known of an account's quota.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quota {
    /// Per window.
    pub windows: BTreeMap<Window, WindowState>,
    /// The aggregate status, which has a life of its own.
    pub aggregate: Option<Aggregate>,
}

/// What is known of one window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WindowState {
    /// Share used.
    pub utilization: Option<f64>,
    /// When it begins anew.
    pub reset: Option<Wall>,
    /// When the utilization was seen.
    pub observed_at: Option<Wall>,
    /// What the provider said.
    pub status: Option<QuotaStatus>,
    /// When it said so.
    pub status_observed_at: Option<Wall>,
    /// The reset known when it said so; later updates never move it.
    pub status_boundary: Option<Wall>,
}

/// The status over all windows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Aggregate {
    /// What the provider said.
    pub status: QuotaStatus,
    /// When it said so.
    pub observed_at: Wall,
}
