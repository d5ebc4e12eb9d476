//! Tests of the control arms of federations in one process, for every algorithm that a file can
//! name.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedbo_federation::{ALGORITHMS, Arm, Collaboration, Federation};
use fedbo_objective::Closure;
use fedbo_optim::Points;
use fedbo_runner::federation::run_arm;
use fedbo_space::{Point, Value};
use fedbo_strategies::{Domain, LogEi, LogEiSettings, Observation, Source, Strategy};
use fedbo_streams::Seed;

const N_AGENTS: usize = 3;
const ROUNDS: usize = 5;

/// The text of a federation file with three agents.
fn text(algorithm: &str, initial: usize, tables: &str) -> String {
    let mut text = format!(
        "[federation]\nname = \"bumps\"\nalgorithm = \"{algorithm}\"\nrounds = {ROUNDS}\ninitial = {initial}\n{tables}\n"
    );
    for name in ["x", "y"] {
        text += &format!("[space.{name}]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\n");
    }
    for agent in 0..N_AGENTS {
        text += &format!("[[agents]]\nname = \"a{agent}\"\n");
    }
    text
}

/// A federation of three agents. Each objective has one bump, at nearby points.
pub(crate) fn federation(algorithm: &str, initial: usize, tables: &str) -> Federation {
    let text = text(algorithm, initial, tables);
    let federation = Federation::from_text(&text, ALGORITHMS).unwrap();
    [0.3, 0.32, 0.34].iter().enumerate().fold(federation, |federation, (agent, top)| {
        let value =
            move |at: &Point| Ok(-(at.number("x") - top).powi(2) - (at.number("y") - 0.6).powi(2));
        federation.with_objective(&format!("a{agent}"), Arc::new(Closure(value))).unwrap()
    })
}

/// The queries of an arm, agent by agent: iteration, source, parameters, value.
pub(crate) fn queries(federation: &Federation, arm: Arm) -> Vec<String> {
    let (rows, _) = run_arm(federation, arm, "bumps", &AtomicBool::new(false)).unwrap();
    let text = |row: &fedbo_report::Row| {
        let (place, value) = (&row.parameters, row.value);
        format!("{} {} {} {place:?} {value:?}", row.agent, row.iteration, row.source)
    };
    rows.iter().map(text).collect()
}

fn tables(algorithm: &str) -> &'static str {
    match algorithm {
        "dp-fts-de" | "dp-shared-prior" => {
            "[features]\ncount = 40\n[privacy]\nsimulate = true\nepsilon = 4.0\nreleases = 2"
        }
        "distributed-ts" | "distributed-shared-prior" => "[topology]\ngraph = \"ring\"",
        _ => "[features]\ncount = 40",
    }
}

/// Standalone log expected improvement is an arm of every algorithm and uses no messages.
#[test]
fn log_ei_is_an_arm_of_every_algorithm() {
    for algorithm in ALGORITHMS.iter().map(|each| each.name) {
        for initial in [2, 1] {
            let federation = federation(algorithm, initial, tables(algorithm));
            assert!(federation.arms().contains(&Arm::LOG_EI), "{algorithm}");
            let rows = queries(&federation, Arm::LOG_EI);
            assert_eq!(rows.len(), N_AGENTS * (initial + ROUNDS), "{algorithm}");
            let is_alone = |row: &String| {
                let source = row.split(' ').nth(2).unwrap();
                ["initial", "own", "random"].contains(&source)
            };
            assert!(rows.iter().all(is_alone), "{algorithm}: {rows:?}");
            let n_random = rows.iter().filter(|row| row.contains(" random ")).count();
            assert_eq!(n_random, N_AGENTS * (3 - initial), "{algorithm}: {rows:?}");
        }
    }
}

/// Standalone agents with log expected improvement behave the same for every algorithm and every
/// graph.
#[test]
fn log_ei_is_the_same_beside_every_algorithm_of_one_exchange() {
    let of =
        |algorithm: &str, tables: &str| queries(&federation(algorithm, 2, tables), Arm::LOG_EI);
    let fts = of("fts", tables("fts"));
    for algorithm in ["ts", "dp-fts-de"] {
        assert_eq!(of(algorithm, tables(algorithm)), fts, "{algorithm}");
    }
    let ring = of("distributed-ts", "[topology]\ngraph = \"ring\"");
    assert_eq!(of("distributed-ts", "[topology]\ngraph = \"edgeless\""), ring);
    assert_ne!(
        ring,
        queries(&federation("distributed-ts", 2, tables("distributed-ts")), Arm::ALONE)
    );
}

/// The agent of this arm equals the strategy of a study with the agent's settings, and sends zeros
/// as messages.
#[test]
fn an_agent_of_log_ei_asks_as_the_strategy_alone() {
    let seed = Seed::new(9);
    let told: Vec<Observation> = [[0.1, 0.2], [0.7, 0.4], [0.5, 0.9]]
        .map(|unit| {
            Observation::new(unit.to_vec(), Some(unit[0] - unit[1] * unit[1]), Source::Initial)
        })
        .into();
    for algorithm in ["fts", "dp-fts-de"] {
        let federation = federation(algorithm, 2, tables(algorithm));
        let map = federation.feature_map().unwrap();
        let stream = || Seed::new(3).stream(fedbo_streams::Purpose::TEST, 0, 0);
        let domain = Domain::Space(federation.space.clone());
        let settings = LogEiSettings::for_agent(&federation.space, false);
        let mut alone = LogEi::new(domain, settings, seed).unwrap();
        alone.tell(&told).unwrap();
        let expected = alone.ask(&Points::new(2), &mut stream()).unwrap();
        let arm = Arm::LOG_EI;
        let (found, message) = match &federation.collaboration {
            Collaboration::Relayed(settings) => {
                let mut agent =
                    federation.relayed_agent(settings.as_ref(), arm, &map, seed).unwrap();
                agent.tell(&told).unwrap();
                let message = agent.weight_sample(&mut stream()).unwrap();
                (agent.ask(&Points::new(2), &mut stream()).unwrap(), message)
            }
            Collaboration::Released(releases) => {
                let mut agent = federation.released_agent(releases, arm, &map, seed).unwrap();
                agent.tell(&told).unwrap();
                let message = agent.weight_sample(&mut stream()).unwrap();
                (agent.ask(&Points::new(2), &mut stream()).unwrap(), message)
            }
            Collaboration::Neighbours(_) => unreachable!("not among these"),
        };
        assert_eq!(found, expected, "{algorithm}");
        assert_eq!(message, [0.0; 40], "{algorithm}");
    }
}

/// With `own_query = "log-ei"`, an agent's own queries differ from Thompson samples, and equal
/// those of the arm `log-ei` if the agent makes only its own queries. The arm `ts` does not change,
/// and neither does the text that identifies the study in a ledger.
#[test]
fn own_queries_of_a_file_may_be_those_of_log_ei() {
    for (algorithm, more) in
        [("fts", ""), ("dp-fts-de", "[privacy]\nepsilon = 4.0\nreleases = 2\n")]
    {
        let file = |own: &str| {
            let keys = format!("[{algorithm}]\nlocal_prob = 1.0\n{own}\n");
            federation(algorithm, 2, &format!("[features]\ncount = 40\n{more}{keys}"))
        };
        let (by_samples, by_log_ei) = (file(""), file("own_query = \"log-ei\""));
        let named = file("own_query = \"ts\"");
        let ask = |federation: &Federation, arm: Arm, drawn: bool| {
            let map = federation.feature_map().unwrap();
            let mut stream = Seed::new(3).stream(fedbo_streams::Purpose::TEST, 0, 0);
            if drawn {
                stream.bernoulli(1.0);
            }
            let told = [[0.2, 0.7], [0.6, 0.1], [0.9, 0.8]].map(|unit| {
                Observation::new(unit.to_vec(), Some(unit[0] - unit[1]), Source::Initial)
            });
            let nothing = Points::new(2);
            match &federation.collaboration {
                Collaboration::Relayed(settings) => {
                    let agent =
                        federation.relayed_agent(settings.as_ref(), arm, &map, Seed::new(9));
                    let mut agent = agent.unwrap();
                    agent.tell(&told).unwrap();
                    agent.ask(&nothing, &mut stream).unwrap()
                }
                Collaboration::Released(releases) => {
                    let agent = federation.released_agent(releases, arm, &map, Seed::new(9));
                    let mut agent = agent.unwrap();
                    agent.tell(&told).unwrap();
                    agent.ask(&nothing, &mut stream).unwrap()
                }
                Collaboration::Neighbours(_) => unreachable!("not among these"),
            }
        };
        let own = by_samples.own_arm();
        let found = ask(&by_log_ei, own, false);
        assert_eq!(found, ask(&by_log_ei, Arm::LOG_EI, true), "{algorithm}");
        assert_ne!(found, ask(&by_samples, own, false), "{algorithm}");
        assert_eq!(ask(&named, own, false), ask(&by_samples, own, false), "{algorithm}");
        for arm in [Arm::ALONE, Arm::LOG_EI] {
            assert_eq!(ask(&by_log_ei, arm, false), ask(&by_samples, arm, false), "{algorithm}");
        }
        let words =
            |federation: &Federation| federation.privacy().map(|plan| plan.charter.config.clone());
        assert_eq!(words(&by_log_ei), words(&by_samples));
        assert_eq!(words(&by_samples).is_some(), algorithm == "dp-fts-de");
    }
}

/// For dp-fts-de, `local_prob = "1-1/t^2"` equals the list of its values, which begins with 0 as in
/// its other schedules.
#[test]
fn the_schedule_of_the_theorem_is_one_of_dp_fts_de() {
    let of = |schedule: &str| {
        let tables = format!("{}\n[dp-fts-de]\nlocal_prob = {schedule}", tables("dp-fts-de"));
        let federation = federation("dp-fts-de", 2, &tables);
        let own = federation.own_arm();
        queries(&federation, own)
    };
    let values = "[0.0, 0.75, 0.8888888888888889, 0.9375, 0.96]";
    assert_eq!(of("\"1-1/t^2\""), of(values));
    assert_ne!(of("\"1-1/t^2\""), of("0.0"));
}

/// Earlier trials of an agent, on a grid, with the best value at (0.8, 0.2).
fn grid() -> Vec<(Point, f64)> {
    let places = (0..36_u32).map(|i| [f64::from(i % 6) / 5.0, f64::from(i / 6) / 5.0]);
    let trial = |[x, y]: [f64; 2]| {
        let named = [("x", x), ("y", y)].map(|(name, at)| (name.to_owned(), Value::Float(at)));
        (Point::new(named.to_vec()), -(x - 0.8).powi(2) - (y - 0.2).powi(2))
    };
    places.map(trial).collect()
}

/// In the basic setting of FTS (Algorithm 1), an agent sends one message from its earlier
/// observations and makes no query. With p_t = 0, the other agent's first query is the maximizer of
/// that message. All later queries use its own model, because no message is left.
#[test]
fn an_agent_with_observations_sends_one_message_and_makes_no_query() {
    let told =
        federation("fts", 2, "[features]\ncount = 200\nlengthscale = 0.4\n[fts]\nlocal_prob = 0.0");
    let told = told.with_observations("a1", grid()).unwrap();
    let told = told.with_observations("a2", grid()).unwrap();
    assert_eq!(told.tuning().map(|(id, _)| id).collect::<Vec<_>>(), [0]);
    let (rows, _) = run_arm(&told, told.own_arm(), "bumps", &AtomicBool::new(false)).unwrap();
    assert!(rows.iter().all(|row| row.agent == "a0"), "{rows:?}");
    assert_eq!(rows.len(), 2 + ROUNDS);
    let sources: Vec<&str> = rows.iter().map(|row| row.source.as_str()).collect();
    let mut senders = sources[2..4].to_vec();
    senders.sort_unstable();
    assert_eq!(senders, ["message:a1", "message:a2"]);
    assert!(sources[4..].iter().all(|source| *source == "own"), "{sources:?}");
    for row in &rows[2..4] {
        let at: Vec<f64> =
            row.parameters.iter().map(|(_, v)| v.to_string().parse().unwrap()).collect();
        assert!((at[0] - 0.8).abs() < 0.15 && (at[1] - 0.2).abs() < 0.15, "{at:?}");
    }
    // Standalone agents, and agents that receive uninformative messages, behave as if the
    // contributors were absent.
    let alone = |federation: &Federation| -> Vec<String> {
        let rows = queries(federation, Arm::ALONE);
        rows.into_iter().filter(|row| row.starts_with("a0 ")).collect()
    };
    assert_eq!(
        alone(&told),
        alone(&federation(
            "fts",
            2,
            "[features]\ncount = 200\nlengthscale = 0.4\n[fts]\nlocal_prob = 0.0"
        ))
    );
}

/// Every algorithm with messages accepts earlier observations, in all of its arms.
#[test]
fn observations_are_for_all_algorithms_with_messages() {
    for algorithm in ["fts", "shared-prior", "rgpe", "taf"] {
        let told = federation(algorithm, 2, "[features]\ncount = 40");
        let told = told.with_observations("a2", grid()).unwrap();
        for arm in told.arms() {
            let rows = queries(&told, arm);
            assert_eq!(rows.len(), 2 * (2 + ROUNDS), "{algorithm}, {arm}");
            assert!(rows.iter().all(|row| !row.starts_with("a2 ")), "{algorithm}, {arm}");
        }
    }
    let refused = |federation: Federation, agent: &str, trials: Vec<(Point, f64)>| {
        federation.with_observations(agent, trials).err().unwrap().to_string()
    };
    let fts = || federation("fts", 2, "");
    let private = refused(federation("dp-fts-de", 2, tables("dp-fts-de")), "a2", grid());
    assert!(private.contains("choose fts, shared-prior, rgpe or taf"), "{private}");
    assert!(refused(federation("ts", 2, ""), "a2", grid()).contains("does not send messages"));
    let free = refused(federation("fts", 2, "pace = \"free\""), "a2", grid());
    assert!(free.contains("pace = \"rounds\""), "{free}");
    assert!(refused(fts(), "a9", grid()).contains("no agent is named \"a9\""));
    assert!(refused(fts(), "a2", Vec::new()).contains("there is none"));
    let outside =
        Point::new(vec![("x".to_owned(), Value::Float(2.0)), ("y".to_owned(), Value::Float(0.5))]);
    assert!(
        refused(fts(), "a2", vec![(outside, 1.0)]).starts_with("agent \"a2\", observation 0: ")
    );
    let mut nan = grid();
    nan[3].1 = f64::NAN;
    assert!(refused(fts(), "a2", nan).contains("observation 3: its value is NaN"));
    let others = fts().with_observations("a0", grid()).unwrap();
    let others = others.with_observations("a1", grid()).unwrap();
    assert!(refused(others, "a2", grid()).contains("no agent is left"));
}

/// An unknown rule is rejected, and the error states the file, line, key and valid values.
#[test]
fn unknown_rules_of_own_queries_are_refused() {
    for algorithm in ["fts", "dp-fts-de"] {
        let refused = |value: &str| {
            let more = if algorithm == "fts" { "" } else { "[privacy]\nmode = \"off\"\n" };
            let text = text(algorithm, 2, &format!("{more}[{algorithm}]\nown_query = {value}"));
            Federation::from_text(&text, ALGORITHMS).err().unwrap().to_string()
        };
        let error = refused("\"logei\"");
        for part in [
            "the federation's text, line".to_owned(),
            format!("{algorithm}.own_query = \"logei\""),
            "expected \"ts\" or \"log-ei\" (did you mean \"log-ei\"?)".to_owned(),
        ] {
            assert!(error.contains(&part), "{part} in {error}");
        }
        assert!(refused("1").contains("own_query"), "{}", refused("1"));
    }
}

/// Without edges, neighbours with a shared prior work alone. With edges, the others influence an
/// agent's queries from the first one on, even if reports are late or lost. The exchange settings
/// are those in `[distributed-ts]`.
#[test]
fn neighbours_learn_a_prior_by_edges_alone() {
    let file = |tables: &str| federation("distributed-shared-prior", 2, tables);
    let edgeless = file("[topology]\ngraph = \"edgeless\"");
    let own = edgeless.own_arm();
    let shares = |rows: &[String]| rows.iter().filter(|row| row.contains(" shared:")).count();
    assert_eq!(shares(&queries(&edgeless, own)), 0);
    let ring = "[features]\ncount = 60\n[shared-prior]\nrank = 12\n[topology]\ngraph = \"ring\"\n";
    let synchronous = queries(&file(ring), own);
    for agent in 0..N_AGENTS {
        let first = synchronous.iter().find(|row| row.starts_with(&format!("a{agent} 1 ")));
        assert!(first.unwrap().contains(" shared:"), "{first:?}");
    }
    let hasty =
        format!("{ring}[distributed-ts]\npace = \"asynchronous\"\ndelay = 0.4\nloss = 0.2\n");
    let asynchronous = queries(&file(&hasty), own);
    assert_eq!(asynchronous, queries(&file(&hasty), own));
    assert_ne!(asynchronous, synchronous);
    assert!(shares(&asynchronous) > 0);
    assert_eq!(shares(&queries(&file(ring), Arm::LOG_EI)), 0);
    assert_ne!(queries(&file(ring), Arm::PLACEBO), synchronous);
    let warm = queries(&file(ring), Arm::WARM_START);
    assert!(warm.iter().any(|row| row.contains(" 1 meta-tasks ")), "{warm:?}");
}

/// Keys of `[distributed-ts]` that do not concern the exchange are rejected. The keys of
/// `[shared-prior]` are the same as for the algorithm `shared-prior`, and `distributed-ts` has no
/// features.
#[test]
fn keys_without_an_effect_between_neighbours_are_refused() {
    let refused = |algorithm: &str, tables: &str| {
        let text = text(algorithm, 2, tables);
        Federation::from_text(&text, ALGORITHMS).err().unwrap().to_string()
    };
    for key in ["ucb_multiplier = 2.0", "query = \"sample\"", "grid = 9", "radius = 0.2"] {
        let error = refused("distributed-shared-prior", &format!("[distributed-ts]\n{key}"));
        let name = key.split(' ').next().unwrap();
        let expected = format!(
            "distributed-ts.{name} has no effect with algorithm \"distributed-shared-prior\""
        );
        assert!(error.contains(&expected) && error.contains("remove it"), "{error}");
    }
    let error =
        refused("distributed-shared-prior", "[features]\ncount = 20\n[shared-prior]\nrank = 21");
    assert!(error.contains("shared-prior.rank = 21"), "{error}");
    let error = refused("distributed-ts", "[features]\ncount = 20");
    assert!(error.contains("[features] has no effect unless federation.algorithm is"), "{error}");
    assert!(error.contains("or \"distributed-shared-prior\""), "{error}");
}

/// One process runs both servers of a secure sum. Equal seeds give equal trials. These differ from
/// trials with a single coordinator, because both servers add noise.
#[test]
fn a_secure_sum_in_one_process_repeats_itself() {
    for algorithm in ["dp-fts-de", "dp-shared-prior"] {
        let tables = tables(algorithm);
        let sums = |more: &str| {
            let federation = federation(algorithm, 2, &format!("{tables}\n{more}"));
            queries(&federation, federation.own_arm())
        };
        let proved = sums("[secure_sum]\n");
        assert_eq!(proved, sums("[secure_sum]\nproof = \"linf\"\n"), "{algorithm}");
        assert_eq!(proved, sums("[secure_sum]\nproof = \"none\"\n"), "{algorithm}");
        assert_ne!(proved, sums(""), "{algorithm}");
    }
}
