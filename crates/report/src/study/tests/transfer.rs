//! Tests of the picture of the old studies' weights.

use super::*;

fn learning(weights: &[(&str, &[f64], bool)]) -> PlottedTransfer {
    let studies = weights.iter().map(|(name, weights, dropped)| PlottedOldStudy {
        name: (*name).to_owned(),
        weights: weights.to_vec(),
        dropped: *dropped,
    });
    let n = weights[0].1.len();
    PlottedTransfer {
        shares: (0..n).map(|query| 0.7_f64.powi(i32::try_from(query).unwrap_or(0))).collect(),
        studies: studies.collect(),
    }
}

fn drawn(title: &str, transfer: &PlottedTransfer) -> String {
    super::super::transfer::chart(title, transfer).svg()
}

/// The two weight curves end at 0.9 and 0.1 in the upper panel. The share curve falls in the lower
/// panel.
#[test]
fn weights_of_old_studies_stand_above_their_share() {
    let transfer = learning(&[
        ("good & old", &[0.5, 0.7, 0.9], false),
        ("misleading", &[0.5, 0.3, 0.01], true),
    ]);
    let svg = drawn("a < b", &transfer);
    let words: Vec<String> = texts(&svg).into_iter().map(|(text, _)| text).collect();
    for word in ["good &amp; old: 90 %", "misleading: dropped", "part of each old study"] {
        assert!(words.iter().any(|text| text == word), "{word} in {words:?}");
    }
    let line_end = |color: &str| {
        let longest = lines(&svg, color, 2).into_iter().max_by_key(Vec::len).expect("a line");
        longest.last().expect("corners").1
    };
    let good = line_end(BLUE);
    let share = line_end(INK);
    assert!(good < share, "{good} {share}");
}

/// For old studies with one joint weight, the picture has only a panel for their share, at full
/// height.
#[test]
fn old_studies_that_weigh_as_one_have_a_share_only() {
    let transfer = PlottedTransfer { shares: vec![0.5, 0.7, 0.93], studies: Vec::new() };
    let svg = drawn("one", &transfer);
    let words: Vec<String> = texts(&svg).into_iter().map(|(text, _)| text).collect();
    let has = |word: &str| words.iter().any(|text| text == word);
    assert!(has("share of all") && !has("part of each old study"), "{words:?}");
    assert!(
        has("after 2 told: old studies have 93 % of the weight in the next query"),
        "{words:?}"
    );
    assert!(!has("−1.0"), "{words:?}");
}

/// The share of negated old studies is drawn below 0.
#[test]
fn a_share_below_zero_has_room() {
    let transfer = PlottedTransfer { shares: vec![0.5, -0.2, -0.93], studies: Vec::new() };
    let svg = drawn("negated", &transfer);
    let words: Vec<String> = texts(&svg).into_iter().map(|(text, _)| text).collect();
    let footnote = "after 2 told: old studies, negated, have 93 % of the weight in the next query";
    for word in [footnote, "share of all (below 0: negated)", "−1.0"] {
        assert!(words.iter().any(|text| text == word), "{word} in {words:?}");
    }
    let longest = lines(&svg, INK, 2).into_iter().max_by_key(Vec::len).expect("a line");
    let heights: Vec<f64> = longest.iter().map(|corner| corner.1).collect();
    assert!(heights[0] < heights[1] && heights[1] < heights[2], "{heights:?}");
    let bottom =
        texts(&svg).into_iter().find(|(text, _)| text == "trials told").expect("a label").1.1;
    assert!(heights[2] < bottom, "{heights:?} {bottom}");
}

#[test]
fn a_study_that_learns_from_old_ones_has_a_further_picture() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut study = study(true, &[Some(2.0)]);
    assert_eq!(study.pictures(), STUDY_PICTURES);
    let many = learning(&[("one", &[1.0, 1.0][..], false); 12]);
    study.transfer = Some(many);
    study.write(folder.path()).expect("a writable folder");
    assert_eq!(study.pictures().last(), Some(&TRANSFER_PICTURE));
    for name in study.pictures() {
        for ending in ["svg", "png"] {
            assert!(folder.path().join(name).with_extension(ending).exists());
        }
    }
    // A transfer without queries, and a study without any weight.
    for transfer in [PlottedTransfer::default(), learning(&[("one", &[][..], false)])] {
        assert!(drawn("", &transfer).starts_with("<svg "));
    }
}
