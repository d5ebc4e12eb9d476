//! Tests of `decision-regions`.

use super::*;

const YELLOW: &str = "#F7D338";
const NEVER: &str = "#303030";
const FORBIDDEN: &str = "#828282";

const N_FIRST: usize = 8;
const N_EPOCHS: usize = 50;
const N_CELLS: usize = 100;
/// Index of the path of a stopped training run.
const STOPPED: usize = 174;

/// Returns the average error so far, by epoch, of a training run whose error decays to its own
/// level.
fn averages(path: usize) -> Vec<f64> {
    let level = 0.05 + 0.5 * noise(path);
    let rate = 0.04 + 0.2 * noise(path + 10_000);
    let mut sum = 0.0;
    let average = |epoch: usize| {
        let epoch = epoch as f64;
        sum += level + (0.75 - level) * (-rate * epoch).exp();
        sum / epoch
    };
    (1..=N_EPOCHS).map(average).collect()
}

/// Creates regions from sampled training runs, by the fraction of runs in each cell that end below
/// an error of 0.3.
pub(super) fn rule() -> DecisionRegionsPicture {
    let paths: Vec<(Vec<f64>, bool)> =
        (0..4000).map(|path| (averages(path), 0.05 + 0.5 * noise(path) < 0.3)).collect();
    let rules = |epoch: usize| {
        let (low, high) = (0.0, 1.0);
        let mut cells = vec![(0.0, 0.0); N_CELLS];
        for (averages, better) in &paths {
            let place = averages[epoch - 1] * N_CELLS as f64;
            let index = (0..N_CELLS).rfind(|index| *index as f64 <= place).unwrap_or(0);
            cells[index].0 += 1.0;
            cells[index].1 += f64::from(u8::from(*better));
        }
        let slack = 0.12 * (1.0 - epoch as f64 / N_EPOCHS as f64);
        let region = |(n, n_better): (f64, f64)| {
            let p_better = if n > 0.0 { n_better / n } else { return None };
            Some(match p_better {
                p if p < 0.5 - slack * 3.0 => Region::StopEarly,
                p if p > 0.5 + slack * 3.0 => Region::RunToEnd,
                _ => Region::Continue,
            })
        };
        RegionEpoch {
            epoch,
            low,
            high,
            cells: cells.into_iter().map(region).collect(),
            may_stop: !(N_FIRST + 1..=14).contains(&epoch),
        }
    };
    let epochs: Vec<RegionEpoch> = (N_FIRST + 1..=N_EPOCHS).map(rules).collect();
    let way: Vec<(usize, f64)> = (1..).zip(averages(STOPPED)).collect();
    let stops = |rules: &&RegionEpoch| {
        let place = way[rules.epoch - 1].1 * N_CELLS as f64;
        let cell = (0..N_CELLS).rfind(|index| *index as f64 <= place).unwrap_or(0);
        rules.may_stop && rules.cells[cell] == Some(Region::StopEarly)
    };
    let stop = epochs.iter().find(stops).expect("it is stopped").epoch;
    DecisionRegionsPicture {
        title: "trial 7".to_owned(),
        path: way[..stop].to_vec(),
        epochs,
        stopped_at: Some(stop),
        ..DecisionRegionsPicture::default()
    }
}

fn svg(picture: &DecisionRegionsPicture) -> String {
    files(|folder| picture.write(folder, None)).0
}

/// Creates two epochs of four cells, to test the placement.
fn small() -> DecisionRegionsPicture {
    let epoch = |epoch, (low, high), cells: [Option<Region>; 4], may_stop| RegionEpoch {
        epoch,
        low,
        high,
        cells: cells.to_vec(),
        may_stop,
    };
    let [go, stop, run] = [Region::Continue, Region::StopEarly, Region::RunToEnd].map(Some);
    DecisionRegionsPicture {
        epochs: vec![
            epoch(3, (0.0, 0.4), [run, go, go, stop], false),
            epoch(4, (0.0, 0.2), [None, run, stop, stop], true),
        ],
        path: vec![(1, 0.38), (2, 0.3), (3, 0.2), (4, 0.15)],
        stopped_at: Some(4),
        ..DecisionRegionsPicture::default()
    }
}

#[test]
fn cells_are_boxes_and_equal_neighbours_are_one() {
    let svg = svg(&small());
    // The first rectangle of each colour is in the legend.
    let (yellow, red) = (rectangles(&svg, YELLOW), rectangles(&svg, RED));
    assert_eq!((yellow.len(), red.len()), (3, 3));
    let ([left, right], reds) = ([yellow[1], yellow[2]], [red[1], red[2]]);
    assert!(left[0] < right[0] && (left[2] - right[0]).abs() <= 4.0, "{left:?} {right:?}");
    // Heights: 0.1 and 2 × 0.05 for yellow, 0.1 and 0.05 for red. Each extends by half a unit
    // beneath the region above.
    let height = |edges: [f64; 4]| edges[3] - edges[1] - 2.0;
    assert!((height(left) - height(right)).abs() <= 2.0, "{left:?} {right:?}");
    assert!((height(reds[0]) / height(reds[1]) - 2.0).abs() < 0.05, "{reds:?}");
    // Positions: 0.3 to 0.4 in the third epoch is above 0.1 to 0.2 in the fourth, and red is below
    // yellow.
    assert!(left[3] < right[1] && reds[0][1] > left[3] && reds[1][1] > right[1]);
    // C2 forbids stopping after the third epoch, but not after the fourth.
    let forbidden = rectangles(&svg, FORBIDDEN);
    assert_eq!(forbidden.len(), 2);
    assert!((forbidden[1][0] - left[0]).abs() < 1.0 && (forbidden[1][2] - left[2]).abs() < 1.0);
    assert!(forbidden[1][1] > reds[0][3] - 1.0, "below all cells");
    assert_says(
        &svg,
        &[
            "epoch",
            "average error so far",
            "train one more epoch",
            "stop",
            "train to the end",
            "never reached",
            "no rule",
            "C2 forbids stopping",
            "this trial, stopped",
            "stopped after epoch 4; C2 forbids stopping after 1 of 2 epochs",
        ],
    );
}

#[test]
fn the_way_ends_where_the_trial_was_stopped() {
    let svg = svg(&small());
    let way = lines(&svg, BLUE, 2).remove(0);
    assert_eq!(way.len(), 4);
    let (end, stop) = (way[3], *discs(&svg, RED).last().expect("a mark"));
    assert!((end.0 - stop.0).hypot(end.1 - stop.1) < 1.5, "{end:?} {stop:?}");
    // The path falls, and 0.15 at the fourth epoch is in yellow.
    assert!(way.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1));
    let yellow = rectangles(&svg, YELLOW)[2];
    assert!(yellow[0] < end.0 && end.0 < yellow[2] && yellow[1] < end.1 && end.1 < yellow[3]);
    // Later points of a path that an experiment continued do not move the marker.
    let mut on = small();
    (on.stopped_at, on.epochs[1].may_stop) = (Some(3), false);
    let svg = files(|folder| on.write(folder, None)).0;
    let stop = *discs(&svg, RED).last().expect("a mark");
    let way = lines(&svg, BLUE, 2).remove(0);
    assert!((way[2].0 - stop.0).abs() < 1.5, "{way:?} {stop:?}");
    assert!(svg.contains("C2 forbids stopping after each of 2 epochs"));
}

#[test]
fn a_way_that_was_not_stopped_is_whole_or_goes_on() {
    let mut picture = small();
    picture.stopped_at = None;
    assert_says(&svg(&picture), &["this trial, trained to the end"]);
    picture.path.truncate(3);
    picture.epochs[0].may_stop = true;
    let words = "trained for 3 epochs; C2 allows stopping after each of 2 epochs";
    let running = svg(&picture);
    assert_says(&running, &["this trial, so far", words]);
    assert!(!running.contains("C2 forbids"));
    picture.path.clear();
    let without = svg(&picture);
    assert!(!without.contains("this trial") && without.contains("no rule"));
}

/// Draws 42 epochs of 100 cells as runs of equal cells, not as 4200 boxes. Repeated drawings have
/// identical bytes.
#[test]
fn a_whole_rule_is_a_small_file() {
    let picture = rule();
    assert_eq!(picture.epochs.len(), 42);
    let (svg, png) = files(|folder| picture.write(folder, Some(7)));
    let n_boxes = elements(&svg, "rect").len();
    assert!(n_boxes < 600 && svg.len() < 150_000, "{n_boxes} {}", svg.len());
    for fill in [YELLOW, RED, NEVER, FORBIDDEN] {
        assert!(rectangles(&svg, fill).len() > 2, "{fill}");
    }
    assert_eq!((svg, png), files(|folder| picture.write(folder, Some(7))));
}

#[test]
fn the_files_are_named_after_the_trial() {
    let [svg, png] = decision_regions_files(Some(7));
    assert_eq!((&*svg, &*png), ("decision-regions-7.svg", "decision-regions-7.png"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let paths = rule().write(folder.path(), None).expect("a picture");
    let names = ["decision-regions.svg", "decision-regions.png"];
    assert_eq!(paths, names.map(|name| folder.path().join(name)));
}

#[test]
fn awkward_rules_are_drawn_too() {
    let one = RegionEpoch {
        epoch: 9,
        low: 0.2,
        high: 0.2 + 1e-9,
        cells: vec![Some(Region::StopEarly)],
        may_stop: true,
    };
    let picture = |epochs: Vec<RegionEpoch>| DecisionRegionsPicture {
        epochs,
        ..DecisionRegionsPicture::default()
    };
    svg(&picture(vec![one.clone()]));
    // No rule; no cell; no reached cell; epochs far apart; huge numbers.
    assert!(svg(&picture(Vec::new())).contains("no rule"));
    let empty = svg(&picture(vec![RegionEpoch::default()]));
    assert_eq!(rectangles(&empty, NEVER).len(), 2, "the legend's and one column");
    let unreached = RegionEpoch { cells: vec![None; 5], ..one.clone() };
    svg(&picture(vec![unreached]));
    let later = RegionEpoch { epoch: 1000, ..one.clone() };
    svg(&picture(vec![one.clone(), later]));
    let huge = RegionEpoch { low: -1e300, high: 1e300, ..one.clone() };
    svg(&picture(vec![huge]));
    // A path of one epoch, before the rule, and one without a rule.
    for epochs in [vec![one], Vec::new()] {
        let way = DecisionRegionsPicture { path: vec![(1, 0.9)], ..picture(epochs) };
        svg(&way);
    }
}

#[test]
fn what_cannot_be_drawn_is_named() {
    let message = |change: &dyn Fn(&mut DecisionRegionsPicture)| {
        let mut picture = small();
        change(&mut picture);
        refused(|folder| picture.write(folder, None))
    };
    let nan = message(&|picture| picture.path[1].1 = f64::NAN);
    assert!(nan.contains("the trial's average error at epoch 2 is NaN"), "{nan}");
    let flat = message(&|picture| picture.epochs[0].high = 0.0);
    assert!(flat.contains("the cells of epoch 3 go from 0 to 0"), "{flat}");
    let edge = message(&|picture| picture.epochs[1].low = f64::NAN);
    assert!(edge.contains("the cells of epoch 4 go from NaN"), "{edge}");
    let twice = message(&|picture| picture.epochs[1].epoch = 3);
    assert!(twice.contains("epoch 3 follows epoch 3"), "{twice}");
    let back = message(&|picture| picture.path[2].0 = 1);
    assert!(back.contains("epoch 1 follows epoch 2"), "{back}");
    let nowhere = message(&|picture| picture.stopped_at = Some(9));
    assert!(nowhere.contains("stopped after epoch 9"), "{nowhere}");
}
