//! Benchmark cells and their requirements.

/// The operation that a cell measures.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A single Thompson query.
    Thompson,
    /// A hyperparameter fit.
    Hyperfit,
    /// Maximization of a message.
    Message,
    /// A single ask and tell of a study.
    AskTell,
    /// Growth of a study step's time and memory.
    StudyGrowth,
    /// Growth of computation time.
    Scaling,
    /// A round of the private mechanism.
    Aggregation,
    /// Rounds of a complete private federation.
    PrivateRound,
    /// A query that uses other agents' models.
    MetaStep,
    /// Growth of this query's time with the number of tasks.
    MetaScaling,
    /// The stopping problem of a trial.
    StoppingProblem,
    /// A decision in a game.
    GameDecision,
    /// Computation of ε by each accountant.
    PrivacyAccounting,
    /// The cost of a secure sum.
    Secsum,
    /// A coordinator service under load.
    CoordinatorLoad,
    /// Memory usage of a coordinator's connections.
    CoordinatorConnections,
    /// Peak memory of a federation.
    Memory,
    /// The criterion benchmarks of `fedbo-gp`.
    Micro,
}

impl Kind {
    /// Kinds that are compared with peers.
    pub(crate) const COMPARED: [Self; 4] =
        [Self::Thompson, Self::Message, Self::Hyperfit, Self::AskTell];

    /// Kinds without peers.
    pub(crate) const ALONE: [Self; 13] = [
        Self::Scaling,
        Self::StudyGrowth,
        Self::MetaStep,
        Self::MetaScaling,
        Self::StoppingProblem,
        Self::GameDecision,
        Self::Aggregation,
        Self::PrivateRound,
        Self::PrivacyAccounting,
        Self::Secsum,
        Self::CoordinatorLoad,
        Self::CoordinatorConnections,
        Self::Memory,
    ];

    /// Returns true if the number of repetitions and the time limit are configurable.
    pub(crate) fn is_repeated(self) -> bool {
        !matches!(
            self,
            Self::Memory
                | Self::PrivateRound
                | Self::CoordinatorLoad
                | Self::CoordinatorConnections
        )
    }

    /// Returns the name of the kind in the results.
    pub(crate) fn bench(self) -> &'static str {
        match self {
            Self::Thompson => "thompson_step",
            Self::Hyperfit => "hyperfit",
            Self::Message => "message",
            Self::AskTell => "optuna_asktell",
            Self::StudyGrowth => "study_growth",
            Self::Scaling => "scaling",
            Self::Aggregation => "aggregation",
            Self::PrivateRound => "private_round",
            Self::MetaStep => "meta_step",
            Self::MetaScaling => "meta_scaling",
            Self::StoppingProblem => "stopping_problem",
            Self::GameDecision => "game_decision",
            Self::PrivacyAccounting => "privacy_accounting",
            Self::Secsum => "secsum",
            Self::CoordinatorLoad => "coordinator_load",
            Self::CoordinatorConnections => "coordinator_connections",
            Self::Memory => "memory",
            Self::Micro => "micro",
        }
    }
}

/// Required speedup over a peer, at equal or better quality.
pub(crate) struct Requirement {
    pub(crate) peer: &'static str,
    pub(crate) ratio: f64,
}

/// One cell.
pub(crate) struct Cell {
    pub(crate) kind: Kind,
    /// For example `thompson_step/d3/t200`.
    pub(crate) name: String,
    /// Arguments of `fedbo-bench`.
    pub(crate) arguments: Vec<String>,
    /// Environment variables that select the same cell in the peers' script.
    pub(crate) selection: Vec<(&'static str, String)>,
    /// Column values that identify the rows of this cell.
    pub(crate) key: Vec<(&'static str, serde_json::Value)>,
    pub(crate) requirement: Option<Requirement>,
}

impl Cell {
    /// Returns true if a peers' script measures the same cell.
    pub(crate) fn runs_peers(&self) -> bool {
        !self.selection.is_empty()
    }
}

/// Returns all cells, or only a few if `quick`.
pub(crate) fn all(quick: bool) -> Vec<Cell> {
    let (dims, sizes): (&[usize], &[usize]) =
        if quick { (&[3], &[50, 200]) } else { (&[2, 3, 6, 20], &[10, 50, 200, 1000]) };
    let mut cells = Vec::new();
    for d in dims {
        for t in sizes {
            cells.push(thompson(*d, *t));
        }
    }
    cells.push(alone(Kind::Message, "message/m100", &["message"]));
    cells[dims.len() * sizes.len()].requirement =
        Some(Requirement { peer: "official_fts", ratio: 300.0 });
    let sizes: &[usize] = if quick { &[50, 200] } else { &[50, 200, 1000] };
    for kernel in ["se", "m52"] {
        for t in sizes {
            cells.push(hyperfit(kernel, *t));
        }
    }
    for strategy in ["log-ei", "gp-ucb", "ts"] {
        for t in sizes {
            cells.push(ask_tell(strategy, *t));
        }
    }
    for strategy in ["log-ei", "gp-ucb", "ts"] {
        let largest = if quick { "1000" } else { "20000" };
        let arguments = ["study_growth", "--strategy", strategy, "--largest", largest];
        let name = format!("study_growth/{strategy}");
        cells.push(alone(Kind::StudyGrowth, &name, &arguments));
    }
    let largest = if quick { "500" } else { "2000" };
    let scaling = ["scaling", "--largest", largest];
    cells.push(alone(Kind::Scaling, "scaling", &scaling));
    cells.push(alone(Kind::MetaStep, "meta_step", &["meta_step"]));
    let tasks = if quick { "5,20" } else { "5,10,20,40,60" };
    let growth = ["meta_scaling", "--tasks", tasks];
    cells.push(alone(Kind::MetaScaling, "meta_scaling", &growth));
    let name = "stopping_problem";
    cells.push(alone(Kind::StoppingProblem, name, &[name]));
    let rounds = if quick { "50,150" } else { "50,150,500" };
    let name = "game_decision";
    let decisions = [name, "--rounds", rounds, "--most", "0.02"];
    cells.push(alone(Kind::GameDecision, name, &decisions));
    let sizes = [("2", "30"), ("2", "300"), ("3", "21"), ("4", "10")];
    for (players, actions) in sizes {
        let name = format!("game_decision/{players}x{actions}");
        let size = ["--players", players, "--actions", actions];
        let arguments = [&["game_decision", "--rounds", "150"], size.as_slice()].concat();
        cells.push(alone(Kind::GameDecision, &name, &arguments));
    }
    cells.push(alone(Kind::Aggregation, "aggregation", &["aggregation"]));
    cells.push(alone(Kind::PrivateRound, "private_round/a29", &["private_round"]));
    cells.push(alone(Kind::PrivateRound, "private_round/a29/fixed", &["private_round", "--fixed"]));
    let crowd = ["private_round", "--agents", "10000", "--rounds", "40"];
    let crowd: Vec<&str> = crowd.into_iter().chain(["--threads", "2"]).collect();
    if !quick {
        cells.push(alone(Kind::PrivateRound, "private_round/a10000", &crowd));
    }
    cells.push(alone(Kind::PrivacyAccounting, "privacy_accounting", &["privacy_accounting"]));
    let sizes = if quick { "100" } else { "100,400,1000,2000" };
    cells.push(alone(Kind::Secsum, "secsum", &["secsum", "--sizes", sizes]));
    cells.extend(coordinator(quick));
    cells.push(alone(Kind::Memory, "memory", &["memory"]));
    cells.push(alone(Kind::Micro, "micro", &[]));
    cells
}

/// Cells with a coordinator service and its agents in two processes.
fn coordinator(quick: bool) -> Vec<Cell> {
    let rounds = if quick { "10" } else { "60" };
    let held = ["--rounds", rounds];
    let most = "--agents 20000 --rounds 8 --round-s 4 --spread-s 0";
    let beside = "--agents 4000 --rounds 80 --spread-s 0.8";
    let slow = format!("{beside} --attack slow --attackers 1000");
    let forged = format!("{beside} --attack forged --attackers 40");
    let shards = "--agents 100000 --rounds 3 --round-s 60 --spread-s 27 --shards 4 --simulate";
    let anew = "--agents 20000 --connections 100 --rounds 2 --round-s 22 --spread-s 18 --shards 4 --simulate --reconnect";
    let words = |text: &'static str| text.split(' ').collect::<Vec<_>>();
    let loads = [
        ("held", [&held[..], &["--simulate"]].concat()),
        ("charged", held.to_vec()),
        ("most", words(most)),
        ("shards", words(shards)),
        ("reconnect", words(anew)),
        ("slow", slow.split(' ').collect()),
        ("forged", forged.split(' ').collect()),
    ];
    let mut cells: Vec<Cell> = loads
        .into_iter()
        .map(|(name, options)| {
            let arguments = [&["coordinator_load"], &options[..]].concat();
            let name = format!("coordinator_load/{name}");
            alone(Kind::CoordinatorLoad, &name, &arguments)
        })
        .collect();
    let name = "coordinator_connections";
    cells.push(alone(Kind::CoordinatorConnections, name, &[name]));
    cells
}

fn thompson(d: usize, t: usize) -> Cell {
    Cell {
        kind: Kind::Thompson,
        name: format!("thompson_step/d{d}/t{t}"),
        arguments: ["thompson_step", "--dims", &d.to_string(), "--sizes", &t.to_string()]
            .map(str::to_owned)
            .to_vec(),
        selection: vec![
            ("TS_D", d.to_string()),
            ("TS_T", t.to_string()),
            ("TS_PEERS", "botorch_pathwise,botorch_sobol_1000".into()),
        ],
        key: vec![("D", d.into()), ("t", t.into())],
        requirement: (d == 3 && t == 200)
            .then_some(Requirement { peer: "botorch_pathwise", ratio: 30.0 }),
    }
}

fn hyperfit(kernel: &str, t: usize) -> Cell {
    Cell {
        kind: Kind::Hyperfit,
        name: format!("hyperfit/{kernel}/t{t}"),
        arguments: ["hyperfit", "--kernels", kernel, "--sizes", &t.to_string()]
            .map(str::to_owned)
            .to_vec(),
        selection: vec![
            ("HF_KERNEL", kernel.into()),
            ("HF_T", t.to_string()),
            ("HF_PEERS", "sklearn,botorch_ml,gpy".into()),
        ],
        key: vec![("kernel", kernel.into()), ("t", t.into())],
        requirement: (t == 200).then_some(Requirement { peer: "sklearn", ratio: 5.0 }),
    }
}

fn ask_tell(strategy: &str, t: usize) -> Cell {
    let size = t.to_string();
    let arguments = ["ask_tell", "--strategy", strategy, "--sizes", &size];
    let (peer, ratio) = if t == 50 { ("optuna_tpe", 1.0) } else { ("optuna_gp", 20.0) };
    Cell {
        kind: Kind::AskTell,
        name: format!("ask_tell/{strategy}/t{t}"),
        arguments: arguments.map(str::to_owned).to_vec(),
        selection: vec![("OA_N", size)],
        key: vec![("trials", t.into())],
        requirement: (t <= 200).then_some(Requirement { peer, ratio }),
    }
}

fn alone(kind: Kind, name: &str, arguments: &[&str]) -> Cell {
    Cell {
        kind,
        name: name.into(),
        arguments: arguments.iter().map(|&a| a.to_owned()).collect(),
        selection: Vec::new(),
        key: Vec::new(),
        requirement: None,
    }
}
