//! `importance`: the importance of each parameter, by two measures.

use super::{PlottedImportance, StudyPlot};
use crate::chart::axis::Axis;
use crate::chart::style::{Anchor, BLUE, INK, NOTE, ORANGE};
use crate::chart::text::Font;
use crate::chart::{Chart, Key, Mark, Panel, Sign, at};

const WIDTH: f64 = 500.0;
/// Height of a row with both bars: normally, and with many parameters.
const ROW: (f64, f64) = (34.0, 27.0);
const N_MANY: usize = 12;
/// Height of a bar as a fraction of the row.
const BAR: f64 = 0.34;

pub(super) fn chart(study: &StudyPlot) -> Chart {
    let mut rows: Vec<(&str, [f64; 2])> = study.importance.iter().map(shares).collect();
    rows.sort_by(|(_, a), (_, b)| b[0].total_cmp(&a[0]).then(b[1].total_cmp(&a[1])));
    let largest = rows.iter().flat_map(|(_, shares)| *shares).fold(0.0, f64::max);
    let x = Axis::of_bars(if largest > 0.0 { largest } else { 100.0 }, 6);
    let row = if rows.len() > N_MANY { ROW.1 } else { ROW.0 };
    let names: Vec<String> = rows.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut panel = Panel::new(
        (WIDTH, if rows.is_empty() { 3.0 } else { rows.len() as f64 } * row),
        x,
        Axis::rows(names),
    );
    let mut chart = Chart { title: study.title.clone(), ..Chart::default() };
    if rows.is_empty() {
        panel.framed = false;
        panel.nothing = match study.best() {
            Some(_) => "importances are not known yet".to_owned(),
            None => "importances are not known: no trial has a value".to_owned(),
        };
    } else {
        chart.x_label = "share, %".to_owned();
        for (color, text) in
            [(BLUE, "variance of the posterior mean"), (ORANGE, "relevance by length scale (ARD)")]
        {
            chart.keys.push(Key::new(Sign::Fill(color), text));
        }
    }
    let font = Font { em: BAR * row, color: INK, ..NOTE };
    for (index, (_, shares)) in rows.iter().enumerate() {
        let middle = index as f64 + 0.5;
        for (color, upper, share) in [(BLUE, middle - BAR, shares[0]), (ORANGE, middle, shares[1])]
        {
            // A share of 0 is drawn as a line.
            let end = at(share, upper + BAR).shifted(if share > 0.0 { 0.0 } else { 1.0 }, 0.0);
            panel.marks.push(Mark::Cell { from: at(0.0, upper), to: end, color });
            let at = at(share, upper + BAR / 2.0).shifted(6.0, 0.0);
            panel.marks.push(Mark::Text { at, text: percent(share), anchor: Anchor::Start, font });
        }
    }
    chart.panels.push(panel);
    chart
}
/// Returns the parameter's name and both shares in percent. An invalid share counts as 0.
fn shares(given: &PlottedImportance) -> (&str, [f64; 2]) {
    let percent = |share: f64| {
        if share.is_finite() { 100.0 * share.clamp(0.0, 1.0) } else { 0.0 }
    };
    let both = [percent(given.variance_share), percent(given.relevance)];
    (&given.parameter, both)
}

fn percent(share: f64) -> String {
    match share {
        none if none <= 0.0 => "0 %".to_owned(),
        small if small < 0.1 => "< 0.1 %".to_owned(),
        small if small < 9.95 => format!("{small:.1} %"),
        large => format!("{large:.0} %"),
    }
}
