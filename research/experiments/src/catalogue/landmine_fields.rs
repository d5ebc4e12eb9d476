//! The landmine fields as agents, and the inputs of the authors' own FTS runs.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use fedbo_gp::FeatureMap;
use fedbo_research_problems::landmine_archive::{
    ArchivedPoint, read_agent_observations, read_features, read_initial_points,
};
use fedbo_research_problems::{LandmineSvm, N_FIELDS, read_fields};
use fedbo_strategies::{Observation, Source};

/// Number of target fields with published initial points, and number of sets of three points per
/// field. Run r starts from set r mod 5, with its own draws and its own histories of the other
/// agents.
pub(super) const N_TARGETS: usize = 6;
pub(super) const N_DESIGNS: u32 = 5;
/// Number of hyperparameters of the SVM.
pub(super) const DIM: usize = 2;
/// Numbers of shared features in the paper.
pub(super) const FEATURE_COUNTS: [usize; 4] = [50, 100, 150, 200];

/// The landmine fields, and the inputs of the authors' runs.
pub(super) struct Fields {
    pub(super) svms: Vec<Arc<LandmineSvm>>,
    initial: Vec<ArchivedPoint>,
    recorded: Vec<ArchivedPoint>,
    /// The authors' features, by feature count.
    pub(super) paper_maps: BTreeMap<usize, Arc<FeatureMap>>,
}

impl Fields {
    /// Reads the fields and inputs from the data folder.
    ///
    /// # Errors
    /// If a file is missing or malformed.
    pub(super) fn read(folder: &Path) -> anyhow::Result<Self> {
        let fields = read_fields(folder)?;
        let svms = (0..N_FIELDS)
            .map(|f| LandmineSvm::new(&fields, f).map(Arc::new))
            .collect::<Result<Vec<_>, _>>()?;
        let mut paper_maps = BTreeMap::new();
        for n_features in FEATURE_COUNTS {
            let archived = read_features(folder, n_features)?;
            let frequencies: Vec<f64> = archived.frequencies.iter().flatten().copied().collect();
            let map = FeatureMap::new(DIM, &frequencies, &archived.phases, 1.0)?;
            paper_maps.insert(n_features, Arc::new(map));
        }
        Ok(Self {
            svms,
            initial: read_initial_points(folder)?,
            recorded: read_agent_observations(folder)?,
            paper_maps,
        })
    }

    /// Returns the initial points of a target's run.
    pub(super) fn initial(&self, target: usize, run: u32) -> Vec<Vec<f64>> {
        self.initial
            .iter()
            .filter(|point| point.field == target && point.run == (run % N_DESIGNS) as usize)
            .map(|point| point.x.to_vec())
            .collect()
    }

    /// Returns the authors' 50 recorded queries for a field, each with its own value.
    pub(super) fn recorded(&self, field: usize) -> Vec<Observation> {
        let of_it =
            self.recorded.iter().filter(|point| point.field == field && point.position >= 1);
        of_it.map(|p| Observation::new(p.x.to_vec(), Some(p.auc), Source::Initial)).collect()
    }
}
