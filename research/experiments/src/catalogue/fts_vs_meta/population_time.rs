//! FTS Fig. 3d: the time per query by the number of other agents, on functions drawn from a
//! Gaussian process.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use fedbo_gp::{Family, FeatureMap, Kernel, PathwiseSample, Posterior, Prior};
use fedbo_optim::Function as _;
use fedbo_report::{
    ArmRef, Metric, Row, Scale, SummaryRequest, Tradeoff, TradeoffPanel, TradeoffPoint,
    TradeoffSeries, TradeoffSpec, summarize,
};
use fedbo_space::{Direction, ParameterSpec, Space};
use fedbo_strategies::{Domain, Observation, Points, Source, Strategy};
use fedbo_streams::{Purpose, Seed};

use super::super::landmine_fields::DIM;
use super::super::markdown::MarkdownTable;
use super::super::{Call, RunOptions};
use super::arms::{Arm, Contributor, Form, Rule, TRANSFER, USUAL_FEATURES};

/// N, the number of other agents.
const N_AGENTS: [u32; 7] = [5, 10, 20, 50, 100, 200, 500];
/// Number of observations of every other agent, and of the target before its first query.
const N_OBSERVED: usize = 50;
const N_OWN: usize = 20;
/// Number of timed queries.
const N_QUERIES: u32 = 5;
/// Standard deviation of the noise, and length scale of the functions.
const NOISE_STD: f64 = 0.05;
const LENGTHSCALE: f64 = 0.3;
/// Subfolder of the figure.
const FOLDER: &str = "run-time";

/// Measures the seconds per query of each rule by the number of agents, sequentially on this
/// thread. Returns a table, and writes a figure to a subfolder. Returns nothing if stopped.
///
/// # Errors
/// If a strategy cannot continue or the figure cannot be written.
pub(super) fn run_times(call: Call<'_>) -> anyhow::Result<Vec<String>> {
    let rules =
        [("fts", Rule::Fts), ("rgpe", Rule::Rgpe(Form::Paper)), ("taf", Rule::Taf(Form::Paper))];
    let seed = call.seed();
    let most = N_AGENTS.into_iter().max().unwrap_or(0);
    let others = (1..=most)
        .map(|agent| {
            let observed = observations(u64::from(agent), N_OBSERVED, &seed)?;
            Ok(Contributor {
                id: agent,
                name: format!("agent {agent}"),
                observed,
                noise_variance: NOISE_STD * NOISE_STD,
            })
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let own = observations(0, N_OWN + N_QUERIES as usize, &seed)?;
    let kernel = Kernel::isotropic(Family::SquaredExponential, DIM, LENGTHSCALE, 1.0)?;
    let mut stream = seed.stream(Purpose::SHARED_FEATURES, 0, 0);
    let map = Arc::new(FeatureMap::for_kernel(&kernel, USUAL_FEATURES, &mut stream)?);
    call.progress.stage("run time by the number of agents", N_AGENTS.len() * rules.len());
    let mut rows = Vec::new();
    for n_agents in N_AGENTS {
        for (name, rule) in rules {
            if call.stop.load(Ordering::Relaxed) {
                return Ok(Vec::new());
            }
            let arm = Arm {
                configuration: TRANSFER,
                name: arm_name(name, n_agents),
                rule,
                n_features: USUAL_FEATURES,
            };
            let heard = &others[..n_agents as usize];
            let mut strategy = arm.strategy(square()?, heard, &map, seed)?;
            strategy.tell(&own[..N_OWN])?;
            rows.extend(timed(strategy.as_mut(), &arm.name, &own[N_OWN..], &seed)?);
            call.progress.job_ended(&arm.name);
        }
    }
    let names = rules.map(|(name, _)| name);
    picture(&rows, &names, call.options)?;
    Ok(table(&rows, &names))
}

fn arm_name(rule: &str, n_agents: u32) -> String {
    format!("{rule} N={n_agents}")
}

/// Returns one row per query, with its duration in seconds as the value. The next observation of
/// `own` is told after each query.
fn timed(
    strategy: &mut dyn Strategy,
    arm: &str,
    own: &[Observation],
    seed: &Seed,
) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (query, observation) in (0_u32..).zip(own) {
        let mut stream = seed.stream(Purpose::PROPOSAL, u64::from(query), 0);
        let began = Instant::now();
        strategy.ask(&Points::new(DIM), &mut stream)?;
        let seconds = began.elapsed().as_secs_f64();
        strategy.tell(std::slice::from_ref(observation))?;
        rows.push(Row {
            experiment: "run time".into(),
            arm: arm.to_owned(),
            agent: "target".into(),
            run: query,
            iteration: 1,
            source: Source::Own.to_string(),
            parameters: Vec::new(),
            value: Some(seconds),
            best: Some(seconds),
            regret: None,
            ask_seconds: seconds,
            status: Row::ok_status(),
        });
    }
    Ok(rows)
}

/// Returns observations of the agent's own function at random points.
fn observations(agent: u64, n: usize, seed: &Seed) -> anyhow::Result<Vec<Observation>> {
    let kernel = Kernel::isotropic(Family::SquaredExponential, DIM, LENGTHSCALE, 1.0)?;
    let prior = Posterior::new(kernel, 0.0, Points::new(DIM), Vec::new())?;
    let mut stream = seed.stream(Purpose::PROBLEM, agent, 0);
    let function = PathwiseSample::draw(&prior, Prior::default(), 1.0, &mut stream)?;
    let mut inputs = Points::new(DIM);
    for _ in 0..n {
        inputs.push(&[stream.uniform(), stream.uniform()]);
    }
    let values = function.values(&inputs);
    let observed = inputs.rows().zip(values).map(|(unit, value)| {
        Observation::new(unit.to_vec(), Some(value + NOISE_STD * stream.normal()), Source::Initial)
    });
    Ok(observed.collect())
}

fn square() -> anyhow::Result<Domain> {
    let unit = ParameterSpec::float(0.0, 1.0);
    Ok(Domain::Space(Space::from_specs([("a", &unit), ("b", &unit)])?))
}

/// Returns a table of mean milliseconds per query.
fn table(rows: &[Row], rules: &[&str]) -> Vec<String> {
    let title = format!(
        "milliseconds per query by the number of other agents (M = {USUAL_FEATURES}, {N_OBSERVED} observations each, mean of \
         {N_QUERIES} queries, one thread):"
    );
    let mut table = MarkdownTable::new(title, "N", rules);
    for n_agents in N_AGENTS {
        let milliseconds = rules.iter().map(|rule| {
            let name = arm_name(rule, n_agents);
            let of_arm = rows.iter().filter(|row| row.arm == name);
            let sum: f64 = of_arm.map(|row| row.ask_seconds).sum();
            format!("{:.1}", 1e3 * sum / f64::from(N_QUERIES))
        });
        table.row(n_agents, milliseconds);
    }
    vec![
        table.into_text(),
        "The paper's Fig. 3d has the same shape: the time of RGPE and TAF grows with the number of agents. FTS asks one \
         agent at a time, so its time stays constant except for the comparison of messages with its own values (P_N learned \
         here)."
            .to_owned(),
    ]
}

fn picture(rows: &[Row], rules: &[&str], options: &RunOptions) -> anyhow::Result<()> {
    let request = SummaryRequest::new("run time", options.seed, Direction::Minimize, Metric::Best);
    let summary = summarize(rows, &request);
    let series = rules.iter().map(|rule| TradeoffSeries {
        name: (*rule).to_owned(),
        points: N_AGENTS
            .iter()
            .map(|n_agents| TradeoffPoint {
                arm: ArmRef::new("", arm_name(rule, *n_agents)),
                label: String::new(),
                cost: f64::from(*n_agents),
            })
            .collect(),
    });
    let spec = TradeoffSpec {
        title: "Run time and the number of agents".into(),
        y_label: "seconds per query".into(),
        panels: vec![TradeoffPanel {
            title: String::new(),
            x_label: "other agents".into(),
            scale: Scale::Log,
            series: series.collect(),
            levels: Vec::new(),
        }],
    };
    let folder = options.out.join(FOLDER);
    std::fs::create_dir_all(&folder)?;
    Tradeoff::of(&summary, &spec).write(&folder)?;
    Ok(())
}
