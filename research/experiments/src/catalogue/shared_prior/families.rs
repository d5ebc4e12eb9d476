//! Families of tasks: several parties on one space, each with its own objective, all to be
//! maximized.

use std::path::Path;
use std::sync::Arc;

use fedbo_objective::Problem;
use fedbo_research_problems::{
    DigitsPerceptron, LandmineSvm, N_FIELDS, N_FORMS, N_TREE_SILOS, WineSites, WineSvm, WineTrees,
    read_fields,
};
use fedbo_strategies::Observation;

use super::Arm;

/// The relation of the others' messages to the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outlook {
    /// The others report their true outputs.
    Honest,
    /// The outputs of all others are negated.
    Negated,
    /// The outputs of every second other party are negated.
    HalfNegated,
    /// The points of all others are mirrored at the centre of the space, which gives different
    /// functions with the same values.
    Mirrored,
}

impl Outlook {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Honest => "honest",
            Self::Negated => "negated",
            Self::HalfNegated => "half negated",
            Self::Mirrored => "mirrored",
        }
    }

    /// Returns the observation that a party reports instead of its own.
    pub(super) fn told(self, party: usize, observation: &Observation) -> Observation {
        let mut told = observation.clone();
        let negates = match self {
            Self::Honest | Self::Mirrored => false,
            Self::Negated => true,
            Self::HalfNegated => party % 2 == 1,
        };
        if negates {
            told.value = told.value.map(|value| -value);
        }
        if self == Self::Mirrored {
            told.unit.iter_mut().for_each(|u| *u = 1.0 - *u);
        }
        told
    }

    /// Returns true if the arm runs. Arms that do not learn from others run only once.
    pub(super) fn has(self, arm: Arm) -> bool {
        let is_run = [Arm::SharedPrior, Arm::Rgpe, Arm::Taf, Arm::LogEi, Arm::LogEiFromOne];
        self == Self::Honest || is_run.contains(&arm)
    }
}

/// Tasks of one space.
pub(super) struct Family {
    pub(super) name: &'static str,
    /// A noun for a party.
    pub(super) party: &'static str,
    pub(super) tasks: Vec<Arc<dyn Problem>>,
    pub(super) outlooks: Vec<Outlook>,
}

impl Family {
    fn of<P: Problem + 'static>(
        name: &'static str,
        party: &'static str,
        tasks: Vec<Arc<P>>,
        outlooks: Vec<Outlook>,
    ) -> Self {
        Self {
            name,
            party,
            tasks: tasks.into_iter().map(|task| task as Arc<dyn Problem>).collect(),
            outlooks,
        }
    }

    /// Returns the name of the family's rows for an outlook.
    pub(super) fn configuration(&self, outlook: Outlook) -> String {
        match outlook {
            Outlook::Honest => self.name.to_owned(),
            _ => format!("{}, {}", self.name, outlook.name()),
        }
    }
}

/// Number of sites that share the wines.
const N_SITES: usize = 11;

/// Returns all families.
///
/// # Errors
/// If data is missing or malformed.
pub(super) fn all(folder: &Path) -> anyhow::Result<Vec<Family>> {
    let fields = read_fields(folder)?;
    let landmine = (0..N_FIELDS)
        .map(|field| Ok(Arc::new(LandmineSvm::new(&fields, field)?.on_logarithmic_axes())))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let sites = WineSites::new(N_SITES)?;
    let wines = (0..N_SITES)
        .map(|site| Ok(Arc::new(WineSvm::new(&sites, site)?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let digits = (0..N_FORMS)
        .map(|form| Ok(Arc::new(DigitsPerceptron::new(form)?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let trees = (0..N_TREE_SILOS)
        .map(|site| Ok(Arc::new(WineTrees::new(N_TREE_SILOS, site)?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let three = vec![Outlook::Honest, Outlook::Negated, Outlook::Mirrored];
    let all = vec![Outlook::Honest, Outlook::Negated, Outlook::Mirrored, Outlook::HalfNegated];
    Ok(vec![
        Family::of("landmine", "field", landmine, all),
        Family::of("wine", "site", wines, three.clone()),
        Family::of("digits", "form", digits, three.clone()),
        Family::of("wine trees", "site", trees, three),
    ])
}
