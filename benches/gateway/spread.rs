//! Figures over rounds: the least, the middle and the greatest.

use std::fmt;

/// One figure over all rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) least: f64,
    pub(crate) median: f64,
    pub(crate) greatest: f64,
}

impl Spread {
    /// None without a single figure.
    pub(crate) fn over(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let (least, greatest) = (*figures.first()?, *figures.last()?);
        Some(Self { least, median: figures[figures.len() / 2], greatest })
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = digits(self.median);
        write!(f, "{:.digits$} ({:.digits$}–{:.digits$})", self.median, self.least, self.greatest)
    }
}

/// Three figures that count, at most two behind the point.
fn digits(figure: f64) -> usize {
    match figure.abs() {
        size if size < 10.0 => 2,
        size if size < 100.0 => 1,
        _ => 0,
    }
}

/// A number between 0 and 1 that is always the same for a seed, and far from its neighbours'.
pub(crate) fn fraction(seed: u64) -> f64 {
    (seed as f64 * 0.618_033_988_75).fract()
}
