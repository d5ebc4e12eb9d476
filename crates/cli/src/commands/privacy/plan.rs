//! `fedbo privacy plan`: the sampling rate that makes the best use of a budget.

use fedbo_federation::N_FEATURES_MAX;
use fedbo_gp::{FeatureDescription, FeatureError, FeatureMap, LengthscaleLaw};
use fedbo_privacy::accounting::{Budget, Mode, NoiseMultiplier, SamplingRate, smallest_multiplier};
use fedbo_streams::{Purpose, Seed};
use serde::Serialize;

use super::setting::{
    AccountantArgs, ClaimRecord, MAX_ROUNDS, claim, parse_epsilon, parse_rate, six_digits,
};
use crate::advice;
use fedbo_console as console;
use fedbo_console::table::{self, Column};
use fedbo_console::text::{number, positive};
use fedbo_console::{BadInput, Exit};

const N_DIM_MAX: u32 = 100;
/// Rates compared by default.
const RATES: [f64; 6] = [0.05, 0.1, 0.25, 0.5, 0.75, 1.0];

/// Compare sampling rates for a roster: the required noise, and its ratio to the signal
///
/// A release is the sum of a region's sampled vectors, clipped to norm C, plus noise with standard
/// deviation z C in each of M features, which has norm z C √M. The signal is at most q N/P
/// identical vectors of norm C. noise/signal is z √M over q N/P: below 1, a release can carry
/// information about a region; far above 1, it cannot. The rate with the smallest ratio is marked.
/// "one sum" is the ratio for a release that sums over all regions, as after the weights have
/// become uniform.
#[derive(clap::Args)]
#[command(allow_negative_numbers = true)] // the value parser of the option rejects negative numbers
pub(crate) struct Plan {
    /// Number of regions of the space
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u32).range(1..))]
    regions: u32,
    /// Number of features of an agent's vector
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(1..))]
    features: u32,
    /// Number of rounds with a release
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..=MAX_ROUNDS))]
    rounds: u64,
    /// Epsilon of the budget
    #[arg(long, value_name = "E", value_parser = parse_epsilon)]
    epsilon: f64,
    #[command(flatten)]
    question: AccountantArgs,
    /// Rates to compare [default: 0.05,0.1,0.25,0.5,0.75,1]
    #[arg(long, value_name = "Q", value_delimiter = ',', value_parser = parse_rate)]
    sampling_rate: Vec<SamplingRate>,
    /// Bound S for vectors that are samples (message = "sample"); adds a note if most of them would
    /// be clipped
    #[arg(long, value_name = "S", value_parser = positive)]
    max_norm: Option<f64>,
    /// Number of parameters of the objective; adds a note if there are too few features to
    /// approximate the kernel
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(u32).range(1..=i64::from(N_DIM_MAX)))]
    dim: Option<u32>,
    /// Length scale of the features in the unit cube [default: as in a federation, around 0.3 √dim]
    #[arg(long, value_name = "L", requires = "dim", value_parser = positive)]
    lengthscale: Option<f64>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document {
    agents: u32,
    regions: u32,
    features: u32,
    budget_epsilon: f64,
    recommended_sampling_rate: f64,
    rates: Vec<RateRecord>,
}

#[derive(Serialize)]
struct RateRecord {
    sampling_rate: f64,
    noise_multiplier: f64,
    /// In units of C.
    noise_norm: f64,
    /// In units of C.
    signal_norm: f64,
    noise_to_signal: f64,
    noise_to_signal_one_sum: f64,
    /// True if the search for the noise stopped at its limit, so the budget may allow less noise.
    is_limit: bool,
    #[serde(flatten)]
    claim: ClaimRecord,
}

impl Plan {
    pub(super) fn run(&self) -> anyhow::Result<Exit> {
        let document = self.document()?;
        if self.json {
            console::result(&serde_json::to_string_pretty(&document)?)?;
            return Ok(Exit::Done);
        }
        print(&document.rates, document.recommended_sampling_rate)?;
        self.advise()?;
        Ok(Exit::Done)
    }

    pub(super) fn answer(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(&self.document()?)?)
    }

    fn document(&self) -> anyhow::Result<Document> {
        let Some(agents) = self.question.agents else {
            return Err(BadInput(
                "--agents N is needed: the signal grows with the roster".to_owned(),
            )
            .into());
        };
        if self.regions > agents {
            let regions = self.regions;
            return Err(BadInput(format!(
                "--regions {regions} is more than --agents {agents}: some region would never have an agent; take at most {agents}"
            ))
            .into());
        }
        let features = self.features as usize;
        if self.dim.is_some() && features > N_FEATURES_MAX {
            return Err(BadInput(format!(
                "--features {features} with --dim: a federation has at most {N_FEATURES_MAX}; take fewer, or leave --dim out"
            ))
            .into());
        }
        let mut records = Vec::new();
        for rate in self.rates()? {
            records.push(self.record(agents, rate)?);
        }
        let loudness =
            |a: &&RateRecord, b: &&RateRecord| a.noise_to_signal.total_cmp(&b.noise_to_signal);
        let Some(best) = records.iter().min_by(loudness).map(|best| best.sampling_rate) else {
            return Err(BadInput("--sampling-rate names no rate".to_owned()).into());
        };
        Ok(Document {
            agents,
            regions: self.regions,
            features: self.features,
            budget_epsilon: self.epsilon,
            recommended_sampling_rate: best,
            rates: records,
        })
    }

    /// Prints notes if the norm is too small or if there are too few features, judged by one random
    /// draw of features.
    fn advise(&self) -> anyhow::Result<()> {
        if let Some(max_norm) = self.max_norm
            && let Some(note) =
                advice::clipping("--max-norm", max_norm, self.regions, self.features)
        {
            console::note(&note);
        }
        let Some(dim) = self.dim.map(|dim| dim as usize) else {
            return Ok(());
        };
        let n_features = self.features as usize;
        let lengthscale = match self.lengthscale {
            Some(lengthscale) => LengthscaleLaw::Fixed(lengthscale),
            None => FeatureDescription::for_parties(dim).lengthscale,
        };
        let description = FeatureDescription::random(n_features, dim, lengthscale);
        let mut stream = Seed::new(0).stream(Purpose::SHARED_FEATURES, 0, 0);
        let map = FeatureMap::draw(&description, &mut stream)?;
        let error = FeatureError::on_unit_cube(&map, &description)?;
        let names = ("--features", "--lengthscale");
        if let Some(note) = advice::features(names, n_features, &error) {
            console::note(&note);
        }
        Ok(())
    }

    fn rates(&self) -> Result<Vec<SamplingRate>, BadInput> {
        if !self.sampling_rate.is_empty() {
            return Ok(self.sampling_rate.clone());
        }
        let rates = RATES.iter().map(|&rate| SamplingRate::new(rate));
        let rates: Result<_, _> = rates.collect();
        rates.map_err(|error| BadInput(error.to_string()))
    }

    fn record(&self, agents: u32, rate: SamplingRate) -> Result<RateRecord, BadInput> {
        let (kind, delta) = (self.question.accountant, self.question.delta()?);
        let sampling = self.question.sampling(rate)?;
        let bad = |error: &dyn std::error::Error| BadInput(error.to_string());
        let budget = Budget::new(self.epsilon, delta).map_err(|error| bad(&error))?;
        let found = smallest_multiplier(kind, sampling, self.rounds, budget);
        let found = found.map_err(|error| bad(&error))?;
        let multiplier = NoiseMultiplier::new(six_digits(found.value.get(), true));
        let multiplier = multiplier.map_err(|error| bad(&error))?;
        let claim = claim(kind, sampling, multiplier, self.rounds, delta, Mode::Default)?;
        let noise_norm = multiplier.get() * f64::from(self.features).sqrt();
        let everybody = rate.get() * f64::from(agents);
        let signal_norm = everybody / f64::from(self.regions);
        Ok(RateRecord {
            sampling_rate: rate.get(),
            noise_multiplier: multiplier.get(),
            noise_norm,
            signal_norm,
            noise_to_signal: noise_norm / signal_norm,
            noise_to_signal_one_sum: noise_norm / everybody,
            is_limit: found.is_limit,
            claim: ClaimRecord::from(&claim),
        })
    }
}

fn print(records: &[RateRecord], best: f64) -> anyhow::Result<()> {
    let column = |of: fn(&RateRecord) -> f64| -> Vec<String> {
        records.iter().map(|record| number(of(record))).collect()
    };
    let marks = records.iter().map(|record| {
        let is_best = record.sampling_rate.to_bits() == best.to_bits();
        if is_best { "best" } else { "" }.to_owned()
    });
    let columns = vec![
        Column::numbers("sampling rate", column(|record| record.sampling_rate), 0),
        Column::numbers("noise multiplier", column(|record| record.noise_multiplier), 0),
        Column::numbers("noise/C", column(|record| record.noise_norm), 3),
        Column::numbers("signal/C", column(|record| record.signal_norm), 2),
        Column::numbers("noise/signal", column(|record| record.noise_to_signal), 0),
        Column::numbers("one sum", column(|record| record.noise_to_signal_one_sum), 1),
        Column::words("", marks.collect(), 0),
    ];
    let (table, _) = table::fit(columns, console::width());
    let best = records.iter().position(|record| record.sampling_rate.to_bits() == best.to_bits());
    console::table(&table, best)?;
    if let Some(first) = records.first() {
        console::result(&first.claim.terms())?;
    }
    if let Some(limited) = records.iter().find(|record| record.is_limit) {
        console::note(&format!(
            "note: the search for a noise multiplier ends at {}, as no bound is proved for less with sampling: where the table shows it, the budget \
             may allow less",
            limited.noise_multiplier
        ));
    }
    let least = records.iter().map(|record| record.noise_to_signal);
    if least.fold(f64::INFINITY, f64::min) > 1.0 {
        console::note(
            "note: at every rate a region's release is more noise than signal; more agents, fewer regions, features or rounds, or \
             a larger epsilon would help",
        );
    }
    Ok(())
}
