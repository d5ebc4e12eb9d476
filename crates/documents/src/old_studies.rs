//! Messages about the old studies that a study learns from: the trials read from each, and the
//! trust in each.

use fedbo_config::ReleaseArchive;
use fedbo_space::Direction;
use fedbo_study::{LeftOut, MetaScale, MetaSpec, OldStudy, OldStudyTrust, TransferStep};
use serde::Serialize;

use fedbo_console::text::{self, counted};

/// Describes the trials read from each old study, one per line.
pub fn beginning(meta: &MetaSpec, direction: Direction) -> String {
    let n = meta.studies.len() as u64;
    let what = match n {
        1 => "1 old study".to_owned(),
        _ => format!("{n} old studies"),
    };
    let mut lines = format!("learns from {what}:");
    if meta.settings.warm_start > 0 {
        lines = match meta.settings.warm_start {
            1 => format!("tries the best point of {what} first:"),
            n_points => format!("tries the best {n_points} points of {what} first:"),
        };
    }
    for study in &meta.studies {
        let name = text::shown(&study.name);
        let place = match study.source.as_deref() {
            // For studies with equal names, the source is already part of the name.
            Some(source) if !study.name.ends_with(&format!("({source})")) => {
                format!(" ({})", text::shown(source))
            }
            _ => String::new(),
        };
        lines += &format!("\n  {name}{place}: {}", counted(study.len() as u64, "trial"));
        if let Some(best) = study.best(direction) {
            lines += &format!(", best {}", text::number(best));
        }
        if !study.left_out.is_empty() {
            lines += &format!("; left out: {}", left_out(study));
        }
        for assumption in &study.assumptions {
            lines += &format!("; {}", text::shown(assumption));
        }
    }
    lines
}

/// Describes the federation releases that the study starts from.
pub fn archived(archive: &ReleaseArchive) -> String {
    format!(
        "starts with {} of federation {}: {} of their content is signal, the rest noise",
        counted(archive.n_releases, "release"),
        text::shown(&archive.federation),
        percent(archive.function.signal_share)
    )
}

fn left_out(study: &OldStudy) -> String {
    let each = study.left_out.iter().map(LeftOut::to_string);
    text::shown(&each.collect::<Vec<_>>().join(", ")).into_owned()
}

/// Describes the weight of each old study in the next query, and the reasons for dropping studies.
pub fn trust(meta: &MetaSpec, step: &TransferStep) -> String {
    let mut sorted: Vec<&OldStudyTrust> = step.studies.iter().collect();
    sorted.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    let dropped: Vec<&OldStudyTrust> = sorted.iter().copied().filter(|s| s.dropped).collect();
    let used: Vec<&OldStudyTrust> = sorted.iter().copied().filter(|s| !s.dropped).collect();
    let each = used.iter().map(|study| {
        let name = text::shown(&study.name);
        format!("{name} {}", percent(study.weight))
    });
    let share = percent(step.share.abs());
    let mut lines = match (step.studies.is_empty(), used.is_empty()) {
        (true, _) if step.share < 0.0 => format!(
            "old studies: their negated shared prior has {share} of the weight in the next query, as good points there are bad here"
        ),
        (true, _) => {
            format!("old studies: their shared prior has {share} of the weight in the next query")
        }
        (false, true) => "old studies: none of them is used any more".to_owned(),
        (false, false) => format!("old studies: {}", each.collect::<Vec<_>>().join(", ")),
    };
    lines += &match step.studies.as_slice() {
        // A single old study cannot be dropped. Its share decreases instead, and the distance
        // explains the decrease.
        [OldStudyTrust { distance: Some(distance), .. }] => format!(
            "; it has {share} of the weight in the next query, and its values differ from this study's by up to {} on average",
            length(meta, *distance)
        ),
        _ if used.is_empty() => String::new(),
        [_] => format!("; it has {share} of the weight in the next query"),
        _ => format!("; together they have {share} of the weight in the next query"),
    };
    for study in dropped {
        let name = text::shown(&study.name);
        lines += &format!(
            "\ndropped: {name} ({}): {}",
            percent(study.weight),
            drop_reason(meta, study, used.first().copied())
        );
    }
    let thinned: Vec<String> = meta
        .studies
        .iter()
        .filter(|study| !study.left_out.is_empty())
        .map(|study| format!("of {}: {}", text::shown(&study.name), left_out(study)))
        .collect();
    if !thinned.is_empty() {
        lines += &format!("\nnot used {}", thinned.join("; "));
    }
    lines
}

/// Explains why a study was dropped, in comparison with the most trusted one.
fn drop_reason(
    meta: &MetaSpec,
    dropped: &OldStudyTrust,
    trusted: Option<&OldStudyTrust>,
) -> String {
    let distances = (dropped.distance, trusted.and_then(|study| study.distance));
    let (Some(trusted), (Some(far), Some(near))) = (trusted, distances) else {
        return match trusted {
            Some(_) => "it ranks this study's trials worse than others do".to_owned(),
            None => "it ranks this study's trials no better than chance".to_owned(),
        };
    };
    let name = text::shown(&trusted.name);
    let (theirs, its) = (length(meta, near), length(meta, far));
    let words = format!(
        "its values differ from this study's by up to {its} on average, those of {name} by {theirs}"
    );
    match far > near {
        true => words,
        false => format!("{words}; earlier they seemed to differ by more"),
    }
}

/// Formats a distance with its unit, with three significant digits.
fn length(meta: &MetaSpec, distance: f64) -> String {
    let rounded = format!("{distance:.2e}").parse().unwrap_or(distance);
    let unit = match meta.settings.scale {
        MetaScale::Own => " standard deviations",
        MetaScale::Common | MetaScale::Raw => "",
    };
    text::number(rounded) + unit
}

fn percent(share: f64) -> String {
    match 100.0 * share {
        small if small > 0.0 && small < 0.5 => "less than 1 %".to_owned(),
        percent => format!("{percent:.0} %"),
    }
}

/// A JSON record of the old studies.
#[derive(Serialize)]
pub struct OldStudiesRecord<'a> {
    scale: MetaScale,
    /// Combined share of the old studies in the next query; if negative, the share of their negated
    /// functions.
    share: f64,
    studies: Vec<OldStudyRecord<'a>>,
}

#[derive(Serialize)]
struct OldStudyRecord<'a> {
    name: &'a str,
    source: Option<&'a str>,
    trials: usize,
    left_out: &'a [LeftOut],
    assumptions: &'a [String],
    best: Option<f64>,
    /// `None` if the strategy gives all old studies one joint weight. The same applies to
    /// `dropped`.
    weight: Option<f64>,
    distance: Option<f64>,
    dropped: Option<bool>,
}

impl<'a> OldStudiesRecord<'a> {
    /// Creates the record of the studies used in a step.
    #[must_use]
    pub fn new(meta: &'a MetaSpec, step: &'a TransferStep, direction: Direction) -> Self {
        let trusts = step.studies.iter().map(Some).chain(std::iter::repeat(None));
        let pairs = meta.studies.iter().zip(trusts);
        Self {
            scale: meta.settings.scale,
            share: step.share,
            studies: pairs
                .map(|(study, trust)| OldStudyRecord {
                    name: &study.name,
                    source: study.source.as_deref(),
                    trials: study.len(),
                    left_out: &study.left_out,
                    assumptions: &study.assumptions,
                    best: study.best(direction),
                    weight: trust.map(|trust| trust.weight),
                    distance: trust.and_then(|trust| trust.distance),
                    dropped: trust.map(|trust| trust.dropped),
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study(name: &str, weight: f64, distance: f64, dropped: bool) -> OldStudyTrust {
        OldStudyTrust { name: name.to_owned(), weight, distance: Some(distance), dropped }
    }

    #[test]
    fn a_dropped_study_is_named_with_the_distances() {
        let meta = MetaSpec::default();
        let mut step = TransferStep {
            n_told: 12,
            share: 0.004,
            studies: vec![
                study("old1", 0.28, 0.5, false),
                study("team", 0.001, 3.1234, true),
                study("lr-2025", 0.719, 0.4, false),
            ],
        };
        assert_eq!(
            trust(&meta, &step),
            "old studies: lr-2025 72 %, old1 28 %; together they have less than 1 % of the weight in the next query\n\
             dropped: team (less than 1 %): its values differ from this study's by up to 3.12 on average, those of lr-2025 by 0.4"
        );
        step.studies[1].distance = None;
        assert!(trust(&meta, &step).ends_with("it ranks this study's trials worse than others do"));
        // A single study is never dropped, and its distance is shown.
        let mut alone = step.clone();
        alone.studies.truncate(1);
        assert_eq!(
            trust(&meta, &alone),
            "old studies: old1 28 %; it has less than 1 % of the weight in the next query, and its values differ from this study's by up to \
             0.5 on average"
        );
        // One joint prior.
        let together = TransferStep { studies: Vec::new(), ..step.clone() };
        assert_eq!(
            trust(&meta, &together),
            "old studies: their shared prior has less than 1 % of the weight in the next query"
        );
        // A small distance does not explain why a study was dropped.
        step.studies[1].distance = Some(0.3);
        assert!(trust(&meta, &step).ends_with("earlier they seemed to differ by more"));
    }
}
