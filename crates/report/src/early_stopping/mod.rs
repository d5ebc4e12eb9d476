//! Pictures of early stopping: `learning-curves`, `stopped-finals` and `decision-regions`, each as SVG and PNG.
//!
//! Decides how trainings, and the decisions to end them, become pictures. Knows nothing of rules: curves, finals and regions are
//! plain data. After Dai 2021 (thesis), Figs. A.2 to A.4. Start at [`LearningCurvesPicture`], [`FinalsPicture`] and
//! [`DecisionRegionsPicture`].

mod decision_regions;
mod finals;
mod learning_curves;
mod marks;
mod panel;
mod value_axis;

use std::path::{Path, PathBuf};

pub use self::decision_regions::{
    DecisionRegionsPicture, Region, RegionEpoch, decision_regions_files,
};
pub use self::finals::{FINALS_FILES, FinalPoint, FinalsPicture};
pub use self::learning_curves::{
    CurveEnd, LEARNING_CURVES_FILES, LearningCurveLine, LearningCurvesPicture,
};
use crate::error::ReportError;
use crate::plot::canvas::register_fonts;
use crate::plot::render::{Picture, draw_error, write_png, write_svg};

/// Writes a picture's two files into a folder and returns their paths. `picture` measures it, or says why it cannot be drawn.
fn write_both<P: Picture>(
    folder: &Path,
    files: [&str; 2],
    picture: impl FnOnce() -> Result<P, String>,
) -> Result<Vec<PathBuf>, ReportError> {
    let [svg, png] = files.map(|name| folder.join(name));
    let picture = register_fonts()
        .and_then(|()| picture())
        .map_err(|message| draw_error(&svg, message))?;
    write_svg(&picture, &svg)?;
    write_png(&picture, &png)?;
    Ok(vec![svg, png])
}

/// A count with its noun.
fn counted(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// A value with at most five digits that matter, in powers of ten where it is very large or small.
fn number(value: f64) -> String {
    let magnitude = value.abs();
    let text = if magnitude >= 1e6 || (magnitude < 1e-4 && magnitude > 0.0) {
        format!("{value:.3e}")
    } else {
        let n_decimals = [1.0, 10.0, 100.0, 1e3, 1e4]
            .iter()
            .filter(|power| magnitude < **power)
            .count();
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
