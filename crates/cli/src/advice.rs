//! One-line notes about clipping norms and feature counts that, according to the papers' theory,
//! cannot work well.

use fedbo_federated::dp_fts_de::clipping::{clipped_share, default_max_norm};
use fedbo_federation::N_FEATURES_MAX;
use fedbo_gp::FeatureError;

use fedbo_console::text::digits;

/// Fraction of clipped vectors above which a note is shown. Above one half, even the median vector
/// is clipped.
const CLIPPED_MAX: f64 = 0.5;

/// Returns a note if clipping to norm S affects most samples of `n_features` weights. `key` is the
/// name of this setting.
pub(crate) fn clipping(
    key: &str,
    max_norm: f64,
    n_regions: u32,
    n_features: u32,
) -> Option<String> {
    let share = |max_norm| clipped_share(f64::from(n_features), max_norm, n_regions);
    let clipped = share(max_norm);
    if clipped <= CLIPPED_MAX {
        return None;
    }
    let usual = default_max_norm(n_regions, n_features);
    Some(format!(
        "note: {key} {} clips {} % of weight samples (M = {n_features}, P = {n_regions}, before any data), so that little more \
         than their direction is left; {} clips {} %",
        digits(max_norm, 4),
        percent(clipped),
        digits(usual, 4),
        percent(share(usual)),
    ))
}

/// Returns a note if there are too few features for their length scale, that is, if their error
/// exceeds the kernel itself. `count` and `lengthscale` are the names of the settings.
pub(crate) fn features(
    (count, lengthscale): (&str, &str),
    n_features: usize,
    error: &FeatureError,
) -> Option<String> {
    let relative = error.relative();
    if relative <= 1.0 {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "numbers of features are far below 2^53")]
    let (found, most) = (n_features as f64, N_FEATURES_MAX as f64);
    // The error decreases as 1/√M.
    let enough = found * relative * relative;
    let more = if enough <= most {
        format!("take about {} or a larger {lengthscale}", digits(enough, 2))
    } else {
        format!("take a larger {lengthscale}")
    };
    Some(format!(
        "note: {count} {n_features} is too few for {lengthscale}: over pairs of points the features deviate from the kernel by \
         {}, more than the kernel itself ({}); {more}",
        digits(error.rms, 2),
        digits(error.kernel_rms, 2),
    ))
}

fn percent(share: f64) -> String {
    digits(100.0 * share, 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_norm_is_noted_where_most_draws_are_clipped() {
        // Neither the paper's values nor the defaults cause a note.
        assert_eq!(clipping("max_norm", 11.0, 2, 50), None);
        assert_eq!(clipping("max_norm", default_max_norm(4, 1), 4, 1), None);
        let note = clipping("max_norm", 11.0, 4, 50).unwrap();
        assert!(note.contains("max_norm 11 clips 98.8 %"), "{note}");
        assert!(note.ends_with("15.56 clips 14.7 %"), "{note}");
    }

    #[test]
    fn features_are_noted_where_their_error_is_above_the_kernel() {
        let names = ("features.count", "features.lengthscale");
        let error = FeatureError { max: 0.4, rms: 0.1, kernel_rms: 0.02 };
        let note = features(names, 100, &error).unwrap();
        assert!(note.contains("features.count 100 is") && note.contains("about 2500 or"), "{note}");
        let fair = FeatureError { kernel_rms: 0.11, ..error };
        assert_eq!(features(names, 100, &fair), None);
        let hopeless = FeatureError { kernel_rms: 1e-9, ..error };
        let note = features(names, 100, &hopeless).unwrap();
        assert!(note.ends_with("take a larger features.lengthscale"), "{note}");
    }
}
