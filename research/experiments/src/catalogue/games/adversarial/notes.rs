//! Tables for the summary: successes in the form of Table 8.1, and the thesis's claims about them.

use std::collections::BTreeMap;

use fedbo_games::Expectation;
use fedbo_report::Estimate;

use super::super::super::markdown::MarkdownTable;
use super::super::Configuration;
use super::super::arms::{Arm, arm_name};
use super::super::outcome::{Comparisons, Outcome, over_games, paired, shown};
use super::bo_attacker::{Search as AttackSearch, arm_name as attack_name};
use super::{ANY, AUTHORS, CLAIMS, GP_MW, HALF, LEVELS, N_IMAGES, N_ROUNDS, RANDOM, RANDOM_GRID};
use super::{DEFENDED, SAMPLED, SUCCESSES, UNDEFENDED};

/// Columns of Table 8.1 (MNIST with random search, with GP-MW, CIFAR-10), and the numbers of Fig.
/// E.6 (30 MNIST images), in the order of [`LEVELS`].
const THESIS: [[f64; 7]; 4] = [
    [2.6, 12.8, 10.2, 0.8, 1.8, 3.0, 0.9],
    [4.3, 6.0, 6.8, 0.4, 1.0, 5.2, 0.4],
    [70.1, 113.1, 99.7, 25.2, 29.7, 70.9, 54.0],
    [20.4, 23.0, 21.3, 9.7, 11.0, 12.4, 7.9],
];
const THESIS_NAMES: [&str; 4] =
    ["thesis: MNIST, random", "MNIST, GP-MW", "CIFAR-10", "MNIST, 30 images"];
/// The configurations with the arms of [`LEVELS`].
const NAMES: [&str; 6] = [RANDOM, GP_MW, RANDOM_GRID, AUTHORS, HALF, ANY];

/// Returns all tables.
pub(super) fn notes(configurations: &[Configuration], outcome: &Outcome) -> Vec<String> {
    let tables = Tables { configurations, outcome };
    let comparisons = tables.comparisons();
    vec![
        tables.successes(),
        tables.claims(&comparisons),
        tables.scores(),
        tables.samples(&comparisons),
        tables.bo_attackers(&comparisons),
        READING.into(),
    ]
}

struct Tables<'a> {
    configurations: &'a [Configuration],
    outcome: &'a Outcome,
}

impl Tables<'_> {
    fn successes(&self) -> String {
        let title = format!(
            "Table 8.1: successful attacks in {N_ROUNDS} rounds, mean ± standard error over {N_IMAGES} images"
        );
        let mut table = MarkdownTable::new(title, "levels", NAMES.iter().chain(&THESIS_NAMES));
        for (row, arm) in arm_names().iter().enumerate() {
            let ours = NAMES.map(|name| count(over_games(&self.of(name, arm), N_IMAGES)));
            let theirs = THESIS.iter().map(|column| format!("{:.1}", column[row]));
            table.row(arm, ours.into_iter().chain(theirs));
        }
        table.into_text()
    }

    /// Returns all comparisons of [`Tables::claims`] and [`Tables::samples`].
    fn comparisons(&self) -> Comparisons {
        let claims = CLAIMS.iter().flat_map(|(arm, control)| {
            NAMES.map(|name| over_games(&self.gain(name, arm, control), N_IMAGES))
        });
        let samples = self.sampled().iter().skip(1);
        let sampled = samples.map(|arm| self.less_than_exact(&arm.name));
        let defended = AttackSearch::ALL.map(|search| self.thwarted(search));
        Comparisons::of(claims.chain(sampled).chain(defended))
    }

    fn claims(&self, comparisons: &Comparisons) -> String {
        let title = format!(
            "Claims of the thesis: differences of successes, paired by image and start ({})",
            comparisons.legend()
        );
        let mut table = MarkdownTable::new(title, "levels", NAMES.iter().chain(&THESIS_NAMES));
        let names = arm_names();
        for (arm, control) in CLAIMS {
            let ours = NAMES.map(|name| {
                comparisons.shown(over_games(&self.gain(name, arm, control), N_IMAGES), 1)
            });
            let place = |of: &str| names.iter().position(|name| name == of);
            let theirs = THESIS.iter().filter_map(|column| {
                Some(format!("{:+.1}", column[place(arm)?] - column[place(control)?]))
            });
            table.row(format!("{arm} less {control}"), ours.into_iter().chain(theirs));
        }
        table.into_text()
    }

    fn scores(&self) -> String {
        let title = format!("Mean attack score over {N_ROUNDS} rounds");
        let mut table = MarkdownTable::new(title, "levels", NAMES);
        for arm in arm_names() {
            let scores = |name| over_games(&self.outcome.means(name, &arm, N_ROUNDS), N_IMAGES);
            table.row(&arm, NAMES.map(|name| shown(scores(name))));
        }
        table.into_text()
    }

    fn samples(&self, comparisons: &Comparisons) -> String {
        let mut table = MarkdownTable::new(
            "Fig. E.8: level 2 v level 1 by the number of draws of an expectation (thesis: 2.6, 3.0 and 3.3 successes with 200, 500 and 1,000)",
            "arm",
            ["successes", "the exact expectation's less these"],
        );
        for (place, arm) in self.sampled().iter().enumerate() {
            let found = over_games(&self.of(SAMPLED, &arm.name), N_IMAGES);
            let less = match place {
                0 => "–".to_owned(),
                _ => comparisons.shown(self.less_than_exact(&arm.name), 1),
            };
            table.row(&arm.name, [count(found), less]);
        }
        table.into_text()
    }

    fn bo_attackers(&self, comparisons: &Comparisons) -> String {
        let title = "Fig. E.10: successes of attackers by Bayesian optimization on a grid, which ignore the defender (thesis, \
                     GP-UCB and TS: 70.1 and 67.0 without it, 0.8 and 0.7 against level 1 Lite)";
        let heads =
            ["no defender", "defender at level 0", "at level 1, Lite", "level 0 less level 1"];
        let mut table = MarkdownTable::new(title, "attacker", heads);
        for search in AttackSearch::ALL {
            let of = |configuration, defender| {
                count(over_games(&self.of(configuration, &attack_name(search, defender)), N_IMAGES))
            };
            let less = comparisons.shown(self.thwarted(search), 1);
            table.row(search.name(), [of(UNDEFENDED, 0), of(DEFENDED, 0), of(DEFENDED, 1), less]);
        }
        table.into_text()
    }

    /// Returns the successes of an attacker that uses Bayesian optimization against a defender at
    /// level 0, minus those against one at level 1.
    fn thwarted(&self, search: AttackSearch) -> Option<Estimate> {
        let [base, defended] = [0, 1].map(|defender| attack_name(search, defender));
        over_games(&self.gain(DEFENDED, &base, &defended), N_IMAGES)
    }

    /// Returns the arms of the configuration with sampled expectations. The first arm has the exact
    /// expectation.
    fn sampled(&self) -> &[Arm] {
        let configuration = self.configurations.iter().find(|each| each.name == SAMPLED);
        configuration.map_or(&[][..], |each| &each.arms)
    }

    /// Returns the successes with the exact expectation minus those with a sampled one.
    fn less_than_exact(&self, arm: &str) -> Option<Estimate> {
        let exact = self.sampled().first()?;
        over_games(&self.gain(SAMPLED, &exact.name, arm), N_IMAGES)
    }

    /// Returns the successes of an arm minus those of its control, for each run.
    fn gain(&self, configuration: &str, arm: &str, control: &str) -> BTreeMap<u32, f64> {
        paired(&self.of(configuration, arm), &self.of(configuration, control))
    }

    /// Returns the successes in each run of a configuration's arm.
    fn of(&self, configuration: &str, arm: &str) -> BTreeMap<u32, f64> {
        let mut places = self.configurations.iter().enumerate();
        let Some((place, found)) = places.find(|(_, each)| each.name == configuration) else {
            return BTreeMap::new();
        };
        let arm = found.arms.iter().position(|each| each.name == arm);
        arm.map_or_else(BTreeMap::new, |arm| self.outcome.measure(place, arm, SUCCESSES))
    }
}

/// Returns the names of the arms of Table 8.1.
fn arm_names() -> [String; 7] {
    LEVELS.map(|(levels, is_lite)| {
        let expectation = match is_lite {
            true => Expectation::Lite,
            false => Expectation::Exact,
        };
        arm_name(levels, expectation)
    })
}

/// Formats an estimate as "12.8 ± 1.3".
fn count(estimate: Option<Estimate>) -> String {
    let error = estimate.and_then(|found| found.standard_error);
    match (estimate, error) {
        (Some(found), Some(error)) => format!("{:.1} ± {error:.1}", found.mean),
        (Some(found), None) => format!("{:.1}", found.mean),
        (None, _) => "–".into(),
    }
}

const READING: &str = "Images. The thesis uses an image for which attack and defence are comparably hard (E.6.2.1b). Here these \
are the first ten images for which attacks succeed in 20 to 80 % of 400 random pairs, and for which neither side has one action, \
of 50 random ones, that wins against all 50 of the other side. \"Half of random attacks succeed\" requires only the first of \
these conditions. On most such images the defender, who moves last, has an action that thwarts nearly all attacks, so 2 v 1 \
stays below 0 v 0, as in Fig. E.6. \"Any images\" are the first ten that the classifier recognizes (Fig. E.6).\n\
Against a defender at level 0 there is little to win on contested images: against uniform defences the attack that is best in \
hindsight has 125 successes in 150 rounds, and a random one has 110.\n\
Columns. Expectations are means of 500 draws on the square, and exact on the grid of 11 x 11 actions. All columns except \
\"authors' model\" have Matérn kernels on standardized payoffs and β^{1/2} = 2. In trials with another seed 1 v 0 gained more \
over 0 v 0 with β^{1/2} = 1 or 0.5 (on the grid 8.9 ± 1.6 and 9.3 ± 1.7 successes, compared with 6.2 ± 1.4 for 2); 2 is the \
library's choice and was kept.";
