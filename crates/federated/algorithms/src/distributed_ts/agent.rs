//! The agent of distributed Thompson sampling (Algorithm 1).

use fedbo_protocol::{Neighbour, ReportRejected};
use fedbo_strategies::{
    Domain, Observation, Points, Proposal, Source, Strategy, StrategyError, Surrogate,
    ThompsonSampling, ThompsonSettings,
};
use fedbo_streams::{Seed, Stream};

use super::IndependentDraws;

/// The method by which an agent chooses its query, given its posterior.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Query {
    /// The maximizer of a function drawn jointly over the domain from the posterior (Algorithm 1,
    /// lines 9–11).
    #[default]
    Sample,
    /// The method in the authors' code; see [`IndependentDraws`].
    IndependentDraws(IndependentDraws),
}

/// Settings of a [`DistributedTs`] agent.
#[derive(Clone, Debug)]
pub struct DistributedTsSettings {
    /// The surrogate, the search, β_t (1 in the paper) and whether points can be repeated.
    pub own: ThompsonSettings,
    /// The method for choosing queries.
    pub query: Query,
}

/// An agent of distributed Thompson sampling (Algorithm 1). The agent fits a Gaussian process to
/// its own and its neighbours' observations, D_{t,i}, and queries the maximizer of a function drawn
/// from the posterior.
///
/// Observations can arrive in batches and in any order, but each must arrive only once. Equal
/// observations in the same order and equal streams give equal queries, regardless of which agent
/// made the observations. On a complete graph, all agents have the same posterior, and the
/// algorithm is batch Thompson sampling.
#[derive(Clone, Debug)]
pub struct DistributedTs {
    own: ThompsonSampling,
    query: Query,
    /// The last point that the agent itself evaluated.
    place: Option<Vec<f64>>,
}

impl DistributedTs {
    /// Creates an agent without observations. Hyperparameter fits use `seed`, so agents with the
    /// same seed fit equal data equally.
    ///
    /// # Errors
    /// If a setting is out of range.
    pub fn new(
        domain: Domain,
        settings: DistributedTsSettings,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        if let Query::IndependentDraws(draws) = &settings.query {
            draws.validate()?;
        }
        Ok(Self {
            own: ThompsonSampling::new(domain, settings.own, seed)?,
            query: settings.query,
            place: None,
        })
    }
}

impl Neighbour for DistributedTs {
    fn domain(&self) -> &Domain {
        self.own.domain()
    }

    fn own(&self) -> &Surrogate {
        self.own.surrogate()
    }

    /// Updates the posterior once for all observations (Algorithm 1, line 15). Without a refit,
    /// this costs O(n² m) if m of n observations are new.
    fn tell_all(
        &mut self,
        own: &[Observation],
        all: &[Observation],
    ) -> Result<Vec<ReportRejected>, StrategyError> {
        self.own.tell(all)?;
        if let Some(last) = own.last() {
            self.place = Some(last.unit.clone());
        }
        Ok(Vec::new())
    }
}

impl Strategy for DistributedTs {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        match &self.query {
            Query::Sample => self.own.propose_own(pending, stream),
            Query::IndependentDraws(draws) => {
                let posterior = self.own.surrogate().posterior();
                let candidates =
                    draws.candidates(posterior, self.domain(), self.place.as_deref(), stream)?;
                self.own.propose_among(candidates, Source::Own, pending, stream)
            }
        }
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.tell_all(observed, observed).map(drop)
    }

    fn surrogate(&self) -> Option<&Surrogate> {
        Some(self.own())
    }
}

#[cfg(test)]
mod tests {
    use fedbo_gp::{Family, Hyperparameters, Kernel};
    use fedbo_space::{ParameterSpec, Space};
    use fedbo_strategies::HyperparameterPolicy;
    use fedbo_streams::Purpose;

    use super::*;

    fn agent() -> DistributedTs {
        let spec = ParameterSpec::float(0.0, 1.0);
        let space = Space::from_specs([("x", &spec), ("y", &spec)]).unwrap();
        let mut own = ThompsonSettings::default_for(2);
        own.surrogate.hyperparameters = HyperparameterPolicy::Fixed(Hyperparameters {
            kernel: Kernel::isotropic(Family::Matern52, 2, 0.3, 1.0).unwrap(),
            noise_variance: 1e-2,
        });
        let query = Query::Sample;
        let settings = DistributedTsSettings { own, query };
        DistributedTs::new(Domain::Space(space), settings, Seed::new(1)).unwrap()
    }

    fn observations(n: usize) -> Vec<Observation> {
        let mut stream = Seed::new(2).stream(Purpose::TEST, 0, 0);
        (0..n)
            .map(|_| {
                Observation::new(
                    vec![stream.uniform(), stream.uniform()],
                    Some(stream.normal()),
                    Source::Own,
                )
            })
            .collect()
    }

    /// Adding a batch of several neighbours' observations gives the same posterior, bit for bit, as
    /// adding them one by one.
    #[test]
    fn a_batch_is_one_observation_after_the_other() {
        let all = observations(40);
        let (mut batched, mut single) = (agent(), agent());
        for n in [0..12, 12..15, 15..22, 22..40] {
            batched.tell(&all[n]).unwrap();
        }
        // In both cases, the first observations are added together.
        single.tell(&all[..12]).unwrap();
        for observation in &all[12..] {
            single.tell(std::slice::from_ref(observation)).unwrap();
        }
        let bits = |agent: &DistributedTs| -> Vec<u64> {
            let alpha = agent.own().posterior().alpha();
            alpha.iter().map(|a| a.to_bits()).collect()
        };
        assert_eq!(bits(&batched), bits(&single));
        assert_eq!(batched.own().len(), 40);
    }
}
