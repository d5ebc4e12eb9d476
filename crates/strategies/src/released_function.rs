//! The releases of a finished federation as a function that later parties can start from.

use std::sync::Arc;

use fedbo_gp::{FeatureDescription, FeatureMap};
use fedbo_optim::Points;
use fedbo_space::Space;
use fedbo_streams::{Purpose, Seed, Stream};
use serde::{Deserialize, Serialize};

use crate::{
    Domain, LocalProb, Maximizer, Observation, Partition, Proposal, RegionFunction, Source,
    Strategy, StrategyError, Surrogate,
};

/// The function defined by a federation's releases: φ(x)·ω^(i) for x in region i. The function is
/// computed only from releases, so sharing it costs no privacy (post-processing).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleasedFunction {
    /// The shared features.
    pub features: FeatureDescription,
    /// The seed from which the federation draws the features.
    pub seed: u64,
    /// Fingerprint of the drawn features, since a different version of the program might draw
    /// different ones.
    pub map: String,
    /// Number of regions P.
    pub n_regions: u32,
    /// The weights ω^(i), P×M.
    pub weights: Vec<Vec<f64>>,
    /// Fraction of ω that is signal rather than noise, in `[0, 1]`.
    pub signal_share: f64,
}

/// A strategy for a study that starts from the result of a federation.
///
/// With probability (1 − p_t) s, where s is the function's fraction of signal, the next query is
/// the best maximum of the released function that is not near a tried point. Otherwise, or if no
/// maximum is left, a different strategy proposes the query. This is DP-FTS-DE Algorithm 2 lines
/// 5-8 for an agent that joins after the last round and sends nothing. The function never changes,
/// so each maximum is tried only once.
pub struct FromArchive {
    then: Box<dyn Strategy>,
    map: Arc<FeatureMap>,
    partition: Partition,
    weights: Vec<Vec<f64>>,
    signal_share: f64,
    local_prob: LocalProb,
    maximizer: Maximizer,
    domain: Domain,
    /// Points of the finished trials.
    tried: Points,
    /// Number of queries so far, excluding the initial design.
    n_steps: u64,
}

/// Points in the unit cube that differ by less than this in every coordinate count as the same
/// maximum.
const MAX_DISTANCE_BESIDE: f64 = 0.02;

impl FromArchive {
    /// Creates the strategy for a study over the federation's space.
    ///
    /// # Errors
    /// If the function does not fit the space or contains a number that is not finite, or if this
    /// version draws different features.
    pub fn new(
        space: &Space,
        function: &ReleasedFunction,
        then: Box<dyn Strategy>,
        local_prob: LocalProb,
        maximizer: Maximizer,
    ) -> Result<Self, StrategyError> {
        let ReleasedFunction { features, weights, .. } = function;
        StrategyError::ensure(
            features.dim == space.dim(),
            "dimension of the archive",
            features.dim,
            "the dimension of the study's space",
        )?;
        let Ok(partition) = Partition::of_space(space, function.n_regions) else {
            let expected = "a number of regions into which the space can be cut";
            return Err(StrategyError::setting(
                "regions of the archive",
                function.n_regions,
                expected,
            ));
        };
        let is_whole = |row: &Vec<f64>| {
            row.len() == features.n_features && row.iter().all(|weight| weight.is_finite())
        };
        if weights.len() != partition.n_regions() || !weights.iter().all(is_whole) {
            let lengths: Vec<usize> = weights.iter().map(Vec::len).collect();
            return Err(StrategyError::setting(
                "lengths of the archive's weights",
                format!("{lengths:?}"),
                "one row per region with one finite number per feature: the file was modified",
            ));
        }
        // Check the weights first, because their number bounds the number of features to draw.
        let mut stream = Seed::new(function.seed).stream(Purpose::SHARED_FEATURES, 0, 0);
        let map = FeatureMap::draw(features, &mut stream)?;
        let expected = "the features drawn from its description and seed: the file was modified, or written by a version \
                        that draws different features";
        let is_same = map.hash().to_string() == function.map;
        StrategyError::ensure(is_same, "features of the archive", &function.map, expected)?;
        StrategyError::ensure(
            (0.0..=1.0).contains(&function.signal_share),
            "signal_share of the archive",
            function.signal_share,
            "a share between 0 and 1",
        )?;
        Ok(Self {
            then,
            map: Arc::new(map),
            partition,
            weights: weights.clone(),
            signal_share: function.signal_share,
            local_prob: local_prob.validate()?,
            maximizer,
            domain: Domain::Space(space.clone()),
            tried: Points::new(space.dim()),
            n_steps: 0,
        })
    }
}

impl Strategy for FromArchive {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        let step = self.n_steps + pending.len() as u64 + 1;
        let share = (1.0 - self.local_prob.at(step)) * self.signal_share;
        if !stream.bernoulli(share) || self.weights.iter().flatten().all(|w| *w == 0.0) {
            return self.then.ask(pending, stream);
        }
        let function = RegionFunction::new(&self.map, &self.partition, &self.weights)?;
        let candidates = function.candidates(&self.domain, &self.maximizer, stream)?;
        let is_near = |unit: &[f64], other: &[f64]| {
            let distances = unit.iter().zip(other).map(|(a, b)| (a - b).abs());
            distances.fold(0.0, f64::max) < MAX_DISTANCE_BESIDE
        };
        let is_new = |unit: &[f64]| {
            let mut others = self.tried.rows().chain(pending.rows());
            !others.any(|other| is_near(unit, other))
        };
        match candidates.first(is_new) {
            None => self.then.ask(pending, stream),
            Some(unit) => Ok(Proposal {
                source: Source::Region { region: self.partition.region_of(&unit) },
                unit,
            }),
        }
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.then.tell(observed)?;
        for observation in observed {
            self.tried.push(&observation.unit);
        }
        let queries = observed.iter().filter(|o| o.source != Source::Initial);
        self.n_steps += queries.count() as u64;
        Ok(())
    }

    fn surrogate(&self) -> Option<&Surrogate> {
        self.then.surrogate()
    }
}

#[cfg(test)]
mod tests {
    use fedbo_gp::{LengthscaleLaw, WeightPosterior};
    use fedbo_space::ParameterSpec;
    use fedbo_testkit::{test_stream, uniform_points};

    use super::*;
    use crate::{LogEi, LogEiSettings};

    fn space() -> Space {
        let spec = ParameterSpec::float(0.0, 1.0);
        Space::from_specs([("a", &spec), ("b", &spec)]).unwrap()
    }

    /// Returns regression weights for −|x − (0.7, 0.2)|², the same in all 4 regions.
    fn function() -> ReleasedFunction {
        let features = FeatureDescription::random(60, 2, LengthscaleLaw::Fixed(0.5));
        let mut stream = Seed::new(5).stream(Purpose::SHARED_FEATURES, 0, 0);
        let map = FeatureMap::draw(&features, &mut stream).unwrap();
        let inputs = uniform_points(80, 2, &mut test_stream(1));
        let y: Vec<f64> =
            inputs.rows().map(|x| -(x[0] - 0.7).powi(2) - (x[1] - 0.2).powi(2)).collect();
        let mean = WeightPosterior::new(&map, 1e-4, &inputs, &y).unwrap();
        ReleasedFunction {
            map: map.hash().to_string(),
            weights: vec![mean.mean().to_vec(); 4],
            n_regions: 4,
            signal_share: 1.0,
            seed: 5,
            features,
        }
    }

    fn build(function: &ReleasedFunction, p: f64) -> Result<FromArchive, StrategyError> {
        let settings = LogEiSettings::for_study(2, false);
        let maximizer = settings.maximizer.clone();
        let then = LogEi::new(Domain::Space(space()), settings, Seed::new(1)).unwrap();
        let local_prob = LocalProb::Constant(p);
        FromArchive::new(&space(), function, Box::new(then), local_prob, maximizer)
    }

    #[test]
    fn queries_come_from_the_released_function_by_its_share_of_signal() {
        let mut function = function();
        let none = Points::new(2);
        let first = build(&function, 0.0).unwrap().ask(&none, &mut test_stream(3)).unwrap();
        let off = (first.unit[0] - 0.7).abs().max((first.unit[1] - 0.2).abs());
        assert!(off < 0.05, "{first:?}");
        assert_eq!(first.source, Source::Region { region: 2 });
        for (p, signal_share, expected) in [(0.0, 0.25, 0.25), (0.6, 1.0, 0.4), (1.0, 1.0, 0.0)] {
            function.signal_share = signal_share;
            let strategy = build(&function, p).unwrap();
            let asked = (0..400).map(|n| strategy.ask(&none, &mut test_stream(10 + n)).unwrap());
            let n = asked.filter(|p| matches!(p.source, Source::Region { .. })).count();
            // Five standard errors of 400 Bernoulli draws.
            let tolerance = 5.0 * (400.0_f64 * expected * (1.0 - expected)).sqrt() + 1e-9;
            assert!((n as f64 - 400.0 * expected).abs() <= tolerance, "{n}");
        }
    }

    /// A maximum that was tried or is running is not proposed again, and neither are points near
    /// it.
    #[test]
    fn a_maximum_is_proposed_once() {
        let mut strategy = build(&function(), 0.0).unwrap();
        let none = Points::new(2);
        let first = strategy.ask(&none, &mut test_stream(3)).unwrap();
        let is_apart = |next: &Proposal| {
            let off = next.unit.iter().zip(&first.unit).map(|(a, b)| (a - b).abs());
            off.fold(0.0, f64::max) >= 0.02 || next.source == Source::Own
        };
        let running = Points::from_rows(2, [first.unit.as_slice()]);
        assert!(is_apart(&strategy.ask(&running, &mut test_stream(3)).unwrap()));
        strategy.tell(&[Observation::new(first.unit.clone(), None, first.source.clone())]).unwrap();
        assert!(is_apart(&strategy.ask(&none, &mut test_stream(3)).unwrap()));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        type Change = fn(&mut ReleasedFunction);
        let changes: [(&str, Change); 6] = [
            ("dimension", |f| f.features.dim = 3),
            ("features", |f| f.seed = 6),
            ("weights", |f| f.weights[1][2] = f64::NAN),
            ("weights", |f| f.weights.truncate(3)),
            ("regions", |f| f.n_regions = 0),
            ("signal_share", |f| f.signal_share = 1.5),
        ];
        for (named, change) in changes {
            let mut function = function();
            change(&mut function);
            let error = build(&function, 0.5).err().unwrap();
            assert!(error.to_string().contains(named), "{named}: {error}");
        }
    }
}
