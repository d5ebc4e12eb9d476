//! Pictures of early stopping: `learning-curves`, `stopped-finals` and `decision-regions`, each as SVG and PNG.
//!
//! This module draws training runs and the decisions to end them. It does not depend on stopping
//! rules: curves, final values and regions are plain data. The pictures follow Dai 2021 (thesis),
//! Figs. A.2 to A.4. Start at [`LearningCurvesPicture`], [`FinalsPicture`] and
//! [`DecisionRegionsPicture`].

mod decision_regions;
mod finals;
mod learning_curves;

use plotters::style::RGBColor;

pub use self::decision_regions::{
    DecisionRegionsPicture, Region, RegionEpoch, decision_regions_files,
};
pub use self::finals::{FINALS_FILES, FinalPoint, FinalsPicture};
pub use self::learning_curves::{
    CurveEnd, LEARNING_CURVES_FILES, LearningCurveLine, LearningCurvesPicture,
};
use crate::chart::style::Glyph;

/// Complete training runs: Okabe and Ito's green.
const GREEN: RGBColor = RGBColor(0, 158, 115);
/// Stopped training runs, and regions that train to the end. This red is darker than the palette's
/// vermilion, which looks orange in faint lines.
const RED: RGBColor = RGBColor(204, 51, 17);
/// The end of a stopped training run.
const STOPPED: Glyph = Glyph::disc(RED);
/// Maximum radius of a marker.
const MARK: f64 = 4.0;

/// Formats a value with at most five significant digits. Very large and very small values use
/// powers of ten.
fn number(value: f64) -> String {
    let magnitude = value.abs();
    let text = if magnitude >= 1e6 || (magnitude < 1e-4 && magnitude > 0.0) {
        format!("{value:.3e}")
    } else {
        let n_decimals =
            [1.0, 10.0, 100.0, 1e3, 1e4].iter().filter(|power| magnitude < **power).count();
        let text = format!("{value:.n_decimals$}");
        match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        }
    };
    text.replace('-', "−")
}

#[cfg(test)]
mod tests;
