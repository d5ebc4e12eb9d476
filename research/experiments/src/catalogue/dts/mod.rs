//! Distributed Thompson sampling: teams on graphs (Zerefa et al., Fig. 1, and the experiments in
//! the authors' code).

mod authors;
mod team;

use std::collections::BTreeMap;
use std::sync::Mutex;

use fedbo_report::{
    Clusters, Estimate, FigureSpec, Metric, PanelBy, Row, Scale, SummaryRequest, TeamRegret,
    TeamRun, write_team_regret,
};
use fedbo_research_problems::data_sets::{DTS_CURVES, without_figures};
use fedbo_space::Direction;
use fedbo_streams::Purpose;
use fedbo_topology::GraphSpec;

use super::jobs::Job;
use super::markdown::MarkdownTable;
use super::{Call, ExperimentResult};
use authors::AuthorsFigures;
use fedbo_runner::Ended;
use fedbo_runner::RowLabels;
use team::{Arm, LANDSCAPES, Landscape, Setting, Team};

/// A team and its name in results.
struct Case {
    name: String,
    /// One of `LANDSCAPES`.
    landscape: &'static str,
    /// Name of the case in the table.
    label: String,
    team: Team,
    arms: &'static [Arm],
}

impl Case {
    fn new(suffix: &str, label: impl Into<String>, team: Team, arms: &'static [Arm]) -> Self {
        let landscape = team.landscape.name;
        Self { name: format!("{landscape}, {suffix}"), landscape, label: label.into(), team, arms }
    }
}

/// Runs Fig. 1: stars of 1, 3, 5 and 7 agents.
pub(super) fn star(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    let case = |landscape: Landscape, setting, n_agents| {
        let suffix = match setting {
            Setting::Text => "",
            Setting::Authors => ", authors' code",
        };
        let team = Team {
            landscape,
            graph: GraphSpec::Star,
            n_agents,
            // The authors' code for the figure ran the second function for 50 rounds.
            n_rounds: match (setting, landscape.name) {
                (Setting::Authors, "rosenbrock") => 50,
                _ => 100,
            },
            setting,
        };
        let arms: &[Arm] = match (setting, n_agents) {
            (_, 1) | (Setting::Authors, _) => &[Arm::Dts],
            (Setting::Text, _) => &Arm::ALL,
        };
        let label = format!("{n_agents}{suffix}");
        let agents = if n_agents == 1 { "agent" } else { "agents" };
        Case::new(&format!("{n_agents} {agents}{suffix}"), label, team, arms)
    };
    let settings = [Setting::Text, Setting::Authors];
    let teams = settings.map(|setting| [1, 3, 5, 7].map(|n_agents| (setting, n_agents)));
    let study = Study {
        name: "dts-star",
        title: "Stars of 1, 3, 5 and 7 agents, 10 initial points each",
        published: Some(Published {
            graph: "star",
            series: |case| case.team.n_agents.to_string(),
            best: "cumulative_best_regret",
            average: "cumulative_average_regret",
        }),
        cases: cases(&teams.concat(), |landscape, (setting, n_agents)| {
            case(landscape, *setting, *n_agents)
        }),
    };
    study.run(call)
}

/// Runs twenty agents on random graphs.
pub(super) fn connectivity(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    let study = Study {
        name: "dts-connectivity",
        title: "Twenty agents on random graphs, 10 initial points each",
        published: Some(Published {
            graph: "Erdos-Renyi",
            series: |case| case.label.clone(),
            best: "cumulative_simple_regret",
            average: "cumulative_average_regret",
        }),
        cases: cases(&[0.2, 0.4, 0.6], |landscape, edge_prob| {
            let edge_prob = *edge_prob;
            let team = Team::of_text(landscape, GraphSpec::ErdosRenyi { edge_prob }, 20);
            let (suffix, label) = (format!("p = {edge_prob}"), format!("p={edge_prob}"));
            Case::new(&suffix, label, team, &[Arm::Dts, Arm::Ts])
        }),
    };
    study.run(call)
}

/// Runs different graphs with the same number of agents.
pub(super) fn topologies(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    const N_AGENTS: u32 = 12;
    let graphs = [
        GraphSpec::Edgeless,
        GraphSpec::Ring,
        GraphSpec::Star,
        GraphSpec::Grid { columns: None },
        GraphSpec::SmallWorld { degree: 4, rewiring: 0.3 },
        GraphSpec::ErdosRenyi { edge_prob: 0.4 },
        GraphSpec::Complete,
    ];
    let study = Study {
        name: "dts-topologies",
        title: "Twelve agents on different graphs, 10 initial points each",
        published: None,
        cases: cases(&graphs, |landscape, graph| {
            let team = Team::of_text(landscape, graph.clone(), N_AGENTS);
            Case::new(&graph.to_string(), graph.to_string(), team, &[Arm::Dts])
        }),
    };
    study.run(call)
}

/// Returns a case for each combination of a landscape and one of the given items.
fn cases<T>(each: &[T], case: impl Fn(Landscape, &T) -> Case) -> Vec<Case> {
    let of = |landscape| each.iter().map(move |each| (landscape, each));
    let pairs = LANDSCAPES.into_iter().flat_map(of);
    pairs.map(|(landscape, each)| case(landscape, each)).collect()
}

/// An experiment with teams.
struct Study {
    name: &'static str,
    title: &'static str,
    /// Names in the authors' readings, if the authors published a figure.
    published: Option<Published>,
    cases: Vec<Case>,
}

/// Names in the authors' readings.
struct Published {
    graph: &'static str,
    /// Name of a case's curve.
    series: fn(&Case) -> String,
    /// The sum of R_B.
    best: &'static str,
    /// The sum of R_A.
    average: &'static str,
}

impl Study {
    fn run(self, call: Call<'_>) -> anyhow::Result<ExperimentResult> {
        let runs = call.runs();
        let authors = call.options.data.as_deref().map(AuthorsFigures::read);
        let authors = authors.transpose()?.flatten();
        let writer = call.writer(&[])?;
        let seed = call.seed();
        let regrets: Mutex<BTreeMap<(usize, usize, u32), TeamRegret>> = Mutex::default();
        let mut jobs = Vec::new();
        for (index, case) in self.cases.iter().enumerate() {
            for (place, arm) in case.arms.iter().enumerate() {
                for run in 0..runs {
                    let unit = RowLabels::new(case.name.clone(), arm.name(), "team", run);
                    let regrets = &regrets;
                    jobs.push(Job::new(unit, move |unit, stop| {
                        let seed = seed.child(Purpose::RUN, u64::from(run));
                        let Some(regret) = case.team.run(*arm, seed, stop)? else {
                            return Ok((Vec::new(), Ended::Interrupted));
                        };
                        let rows = rows(unit, &regret);
                        let mut regrets =
                            regrets.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        regrets.insert((index, place, run), regret);
                        Ok((rows, Ended::Complete))
                    }));
                }
            }
        }
        let (rows, ended) = call.play(self.name, &jobs, writer)?;
        drop(jobs);
        let regrets = regrets.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let team_runs: Vec<TeamRun> = regrets
            .iter()
            .map(|((index, place, run), regret)| {
                let case = &self.cases[*index];
                TeamRun {
                    experiment: case.name.clone(),
                    arm: case.arms[*place].name().to_owned(),
                    run: *run,
                    regret: regret.clone(),
                }
            })
            .collect();
        write_team_regret(&call.options.out, &team_runs)?;
        let request = SummaryRequest {
            checkpoints: vec![5, 10, 20],
            clusters: Clusters::Runs,
            figure: Some(FigureSpec {
                title: self.title.into(),
                x_label: "round".into(),
                y_label: "best regret of the team so far".into(),
                scale: Scale::Log,
                panel_by: PanelBy::Experiment,
                ..FigureSpec::default()
            }),
            ..call.summary_request(self.name, Direction::Minimize, Metric::Regret)
        };
        let pairs_of = |name: &str| {
            let case = self.cases.iter().find(|case| case.name == name);
            let arms = case.map_or(&[][..], |case| case.arms);
            let controls = arms.iter().filter(|arm| **arm != Arm::Dts);
            controls.map(|arm| (Arm::Dts.name().into(), arm.name().into())).collect()
        };
        let concluded = call.conclude(&rows, ended, request, pairs_of)?;
        let mut notes = self.tables(&regrets, authors.as_ref());
        if self.published.is_some() {
            notes.push(match authors {
                Some(_) => AUTHORS_NOTE.to_owned(),
                None if call.options.data.is_some() => without_figures(DTS_CURVES),
                None => "Pass --data FOLDER to show the authors' figures alongside.".to_owned(),
            });
        }
        Ok(ExperimentResult { notes, ..concluded })
    }

    /// Returns the final sums of the best and of the average regret, with one table per landscape.
    fn tables(
        &self,
        regrets: &BTreeMap<(usize, usize, u32), TeamRegret>,
        authors: Option<&AuthorsFigures>,
    ) -> Vec<String> {
        let mut tables = Vec::new();
        for landscape in LANDSCAPES {
            let title =
                format!("{}: sums over rounds, mean ± standard error over runs", landscape.name);
            let heads = [
                "arm",
                "T",
                "best regret",
                "average regret",
                "R_B(T)",
                "authors' best",
                "authors' average",
            ];
            let mut table = MarkdownTable::new(title, "team", heads);
            for (index, case) in self.cases.iter().enumerate() {
                if case.landscape != landscape.name {
                    continue;
                }
                for (place, arm) in case.arms.iter().enumerate() {
                    let of_arm = regrets.range((index, place, 0)..=(index, place, u32::MAX));
                    let regrets: Vec<&TeamRegret> = of_arm.map(|(_, regret)| regret).collect();
                    let sums: Vec<TeamRegret> = regrets.iter().map(|r| r.cumulative()).collect();
                    let last = |values: &[f64]| values.last().copied().unwrap_or(f64::NAN);
                    let cell = |values: Vec<f64>| match Estimate::of(&values) {
                        Some(estimate) => shown(&estimate),
                        None => "–".to_owned(),
                    };
                    let published = self.published.as_ref().filter(|_| *arm == Arm::Dts);
                    let theirs = |metric: fn(&Published) -> &'static str| {
                        let reading = authors.zip(published).and_then(|(authors, published)| {
                            let series = (published.series)(case);
                            let metric = metric(published);
                            authors.last(landscape.name, published.graph, &series, metric)
                        });
                        reading.map_or("–".to_owned(), |(iteration, value)| {
                            format!("{value:.3} at {iteration}")
                        })
                    };
                    let cells = [
                        arm.name().to_owned(),
                        case.team.n_rounds.to_string(),
                        cell(sums.iter().map(|sum| last(&sum.best)).collect()),
                        cell(sums.iter().map(|sum| last(&sum.average)).collect()),
                        cell(regrets.iter().map(|regret| last(&regret.best)).collect()),
                        theirs(|published| published.best),
                        theirs(|published| published.average),
                    ];
                    table.row(&case.label, cells);
                }
            }
            tables.push(table.into_text());
        }
        tables
    }
}

const AUTHORS_NOTE: &str = "The authors' values are read off figures of five runs. Those of the stars use the observed noisy \
    values, clipped at 0: lucky noise by itself brings their best regret to 0. Their queries are not maximizers of functions \
    drawn from the posterior, stay within a radius of the agent's last point, and lie on a grid; of the initial points only the \
    best is shared; sums begin with the best initial point. The rows \"authors' code\" follow these choices; hyperparameters are \
    fitted with our priors and less often.";

fn shown(estimate: &Estimate) -> String {
    match estimate.standard_error {
        Some(se) => format!("{:.3} ± {se:.3}", estimate.mean),
        None => format!("{:.3}", estimate.mean),
    }
}

/// Converts a team's regret to rows: one per round, with R_B.
fn rows(unit: &RowLabels, regret: &TeamRegret) -> Vec<Row> {
    let best = (1_i64..).zip(&regret.best);
    best.map(|(iteration, best)| Row {
        experiment: unit.experiment.clone(),
        arm: unit.arm.clone(),
        agent: unit.agent.clone(),
        run: unit.run,
        iteration,
        source: "team".into(),
        parameters: Vec::new(),
        value: None,
        best: None,
        regret: Some(*best),
        ask_seconds: 0.0,
        status: Row::ok_status(),
    })
    .collect()
}
