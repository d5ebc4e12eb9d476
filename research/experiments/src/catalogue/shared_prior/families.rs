//! Families of tasks: several parties with one space, each with an objective of its own, all to be maximized.

use std::path::Path;
use std::sync::Arc;

use fedbo_objective::Problem;
use fedbo_problems::{
    DigitsPerceptron, LandmineSvm, N_FIELDS, N_FORMS, N_TREE_SILOS, WineSites, WineSvm, WineTrees,
    read_fields,
};

use super::Arm;

/// The relation of the others' messages to the task at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outlook {
    /// Their outputs as they found them.
    Honest,
    /// The outputs of all others are negated.
    Negated,
    /// Those of every second one are.
    HalfNegated,
}

impl Outlook {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Honest => "honest",
            Self::Negated => "negated",
            Self::HalfNegated => "half negated",
        }
    }

    /// The output that a party tells in place of the one that it found.
    pub(super) fn told(self, party: usize, value: f64) -> f64 {
        let negates = match self {
            Self::Honest => false,
            Self::Negated => true,
            Self::HalfNegated => party % 2 == 1,
        };
        if negates { -value } else { value }
    }

    /// Arms that do not learn from others are run once.
    pub(super) fn has(self, arm: Arm) -> bool {
        let is_run = [Arm::SharedPrior, Arm::Rgpe, Arm::Taf, Arm::LogEi, Arm::LogEiFromOne];
        self == Self::Honest || is_run.contains(&arm)
    }
}

/// Tasks of one space.
pub(super) struct Family {
    pub(super) name: &'static str,
    /// The word for a party.
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

    /// The name of its rows under an outlook.
    pub(super) fn configuration(&self, outlook: Outlook) -> String {
        match outlook {
            Outlook::Honest => self.name.to_owned(),
            _ => format!("{}, {}", self.name, outlook.name()),
        }
    }
}

/// Sites that the wines are divided among.
const N_SITES: usize = 11;

/// All families.
///
/// # Errors
/// If data are missing or malformed.
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
    let all = vec![Outlook::Honest, Outlook::Negated, Outlook::HalfNegated];
    let two = vec![Outlook::Honest, Outlook::Negated];
    Ok(vec![
        Family::of("landmine", "field", landmine, all),
        Family::of("wine", "site", wines, two.clone()),
        Family::of("digits", "form", digits, two.clone()),
        Family::of("wine trees", "site", trees, two),
    ])
}
