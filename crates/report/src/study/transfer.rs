//! `transfer`: the weight of each old study at every query, if each has its own weight, and their
//! combined share.

use super::PlottedTransfer;
use crate::chart::axis::Axis;
use crate::chart::style::{Glyph, INK, LINE_WIDTH, NAME, Stroke, grid, size_for};
use crate::chart::{At, Chart, Key, Panel, Sign, at};

/// Height of the lower panel as a fraction of the upper panel's height.
const LOWER: f64 = 0.55;
/// Maximum width of an old study's name.
const NAME_MAX: f64 = 260.0;

pub(super) fn chart(title: &str, transfer: &PlottedTransfer) -> Chart {
    let size = grid(1).1;
    let last = transfer.shares.len().saturating_sub(1).max(1) as f64;
    let panel = |row: usize, height: f64, y_label: &str, least: f64| Panel {
        cell: (row, 0),
        y_label: y_label.to_owned(),
        ..Panel::new((size.0, height), Axis::whole(0.0, last, 8), Axis::linear(least, 1.0, 5))
    };
    let mark = size_for(transfer.shares.len(), 120.0, (1.3, 4.0));
    let corners = |shares: &[f64]| -> Vec<At> {
        shares.iter().enumerate().map(|(query, share)| at(query as f64, *share)).collect()
    };
    let names: Vec<&str> = transfer.studies.iter().map(|study| study.name.as_str()).collect();
    let names = NAME.cut_apart(&names, NAME_MAX);
    let mut keys = Vec::with_capacity(names.len());
    let mut upper = panel(0, size.1, "part of each old study", 0.0);
    for (index, (study, name)) in transfer.studies.iter().zip(names).enumerate() {
        let (stroke, glyph) = (Stroke::of_arm(index), Glyph::of_arm(index));
        upper.line(corners(&study.weights), stroke);
        upper.points(corners(&study.weights), glyph, mark);
        let what = match (study.dropped, study.weights.last()) {
            (true, _) => ": dropped".to_owned(),
            (false, Some(weight)) => format!(": {:.0} %", 100.0 * weight),
            (false, None) => String::new(),
        };
        let sign = Sign::curve(stroke, glyph);
        keys.push(Key::new(sign, name + &what));
    }
    let weighs_each = !transfer.studies.is_empty();
    let (row, height) = if weighs_each { (1, LOWER * size.1) } else { (0, size.1) };
    let negated = transfer.shares.iter().any(|share| *share < 0.0);
    let (label, least) =
        if negated { ("share of all (below 0: negated)", -1.0) } else { ("share of all", 0.0) };
    let mut lower = panel(row, height, label, least);
    lower.line(corners(&transfer.shares), Stroke::solid(INK, LINE_WIDTH));
    lower.points(corners(&transfer.shares), Glyph::disc(INK).bare(), mark);
    let footnote = match transfer.shares.last() {
        Some(share) => format!(
            "after {} told: old studies{} have {:.0} % of the weight in the next query",
            transfer.shares.len() - 1,
            if *share < 0.0 { ", negated," } else { "" },
            100.0 * share.abs()
        ),
        None => "no query yet".to_owned(),
    };
    Chart {
        title: title.to_owned(),
        keys,
        panels: if weighs_each { vec![upper, lower] } else { vec![lower] },
        x_label: "trials told".to_owned(),
        footnote,
        ..Chart::default()
    }
}
