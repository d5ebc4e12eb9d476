//! The arms of the real problems: their strategies and their controls.

use fedbo_rivals::{Mtbo, MtboSettings, PemBo};
use fedbo_strategies::meta::{
    GapBound, GapSummary, MetaBeliefSettings, MetaTask, OutputScale, Rgpe, RgpeSettings, RmGpTs,
    RmGpTsSettings, RmGpUcb, RmGpUcbSettings, Taf, TafSettings, TaskWeighting, WarmStart,
};
use fedbo_strategies::{
    Domain, GpUcb, GpUcbSettings, LogEi, LogEiSettings, Points, Repeats, Strategy,
    ThompsonSampling, ThompsonSettings, UcbMultiplier,
};
use fedbo_streams::Seed;

use super::synthetic::placebo_tasks;

/// The strategy of an arm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rule {
    /// GP-UCB on the target alone, with the β_t of the thesis' experiments.
    GpUcb,
    /// Expected improvement, which the rivals also maximize, on the target alone.
    LogEi,
    /// Thompson sampling on the target alone.
    Ts,
    /// GP-UCB after the best point of every earlier task, in random order.
    WarmStart,
    /// RM-GP-UCB with learned weights. Outputs are compared on this scale.
    RmGpUcb(OutputScale),
    /// RM-GP-UCB on the usual scale, with a task's largest distance instead of its mean distance
    /// (Lemma 7.1 except for the noise term).
    LargestGap,
    /// RM-GP-UCB with equal weights.
    Uniform,
    /// RM-GP-UCB with meta-outputs shuffled among the inputs of their task, so that the tasks
    /// contain no information about the target.
    Placebo,
    /// RM-GP-TS.
    RmGpTs,
    /// RGPE as in the paper.
    Rgpe,
    /// RGPE as in the runs of the thesis's authors.
    RgpeAuthors,
    /// TAF with a distance that does not vanish.
    Taf,
    /// TAF as in the runs of the thesis's authors.
    TafAuthors,
    /// One Gaussian process over all tasks.
    Mtbo,
    /// A prior estimated from the earlier tasks at every point of a finite domain.
    PemBo,
}

/// One curve.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arm {
    pub(super) name: &'static str,
    pub(super) rule: Rule,
}

/// The arm with which the others are compared.
pub(super) const LEARNED: &str = "rm-gp-ucb";
/// RM-GP-UCB on raw outputs, as in the authors' code.
pub(super) const RAW: &str = "rm-gp-ucb raw";
/// RM-GP-UCB with a task's largest distance instead of its mean distance (Fig. D.5).
pub(super) const LARGEST: &str = "rm-gp-ucb max";
/// Controls for the learned weights.
const CONTROLS: [&str; 9] =
    ["placebo", "rm-gp-ucb uniform", "warm start", "rgpe", "taf", "mtbo", "pem-bo", RAW, LARGEST];
/// ζ of PEM-BO, equal to β in fedbo's studies with GP-UCB.
const PEM_MULTIPLIER: f64 = 2.0;

/// Returns the arms that all real problems have, followed by `further`.
pub(super) fn arms(further: &[(&'static str, Rule)]) -> Vec<Arm> {
    let common = [
        ("gp-ucb", Rule::GpUcb),
        ("log-ei", Rule::LogEi),
        ("ts", Rule::Ts),
        ("warm start", Rule::WarmStart),
        (LEARNED, Rule::RmGpUcb(OutputScale::Common)),
        ("rm-gp-ucb own scale", Rule::RmGpUcb(OutputScale::Own)),
        ("rm-gp-ucb uniform", Rule::Uniform),
        ("placebo", Rule::Placebo),
        ("rm-gp-ts", Rule::RmGpTs),
        ("rgpe", Rule::Rgpe),
        ("taf", Rule::Taf),
    ];
    common.iter().chain(further).map(|&(name, rule)| Arm { name, rule }).collect()
}

impl Rule {
    /// Returns the arm with the same rule on the target alone.
    fn alone(self) -> Option<&'static str> {
        match self {
            Self::GpUcb | Self::LogEi | Self::Ts => None,
            Self::WarmStart
            | Self::RmGpUcb(_)
            | Self::LargestGap
            | Self::Uniform
            | Self::Placebo
            | Self::PemBo => Some("gp-ucb"),
            Self::RmGpTs => Some("ts"),
            Self::Rgpe | Self::RgpeAuthors | Self::Taf | Self::TafAuthors | Self::Mtbo => {
                Some("log-ei")
            }
        }
    }
}

/// Returns the pairs (arm, control): every arm against the same rule on the target alone, and the
/// learned weights against their controls.
pub(super) fn pairs(arms: &[Arm]) -> Vec<(String, String)> {
    let alone = arms.iter().filter_map(|arm| Some((arm.name, arm.rule.alone()?)));
    let has = |name: &str| arms.iter().any(|arm| arm.name == name);
    let learned = CONTROLS.iter().filter(|name| has(name));
    alone
        .chain(learned.map(|control| (LEARNED, *control)))
        .map(|(arm, control)| (arm.to_owned(), control.to_owned()))
        .collect()
}

/// Creates the strategy of the `gp-ucb` arm. This strategy also makes the observations of the
/// earlier tasks. As in all arms, the model allows for noise, because the objectives are rough.
///
/// # Errors
/// If a setting is out of range.
pub(super) fn gp_ucb(domain: Domain, seed: Seed) -> anyhow::Result<GpUcb> {
    let settings = GpUcbSettings {
        ucb_multiplier: UcbMultiplier::Logarithmic,
        repeats: Repeats::Avoid,
        ..GpUcbSettings::for_study(domain.dim(), true)
    };
    Ok(GpUcb::new(domain, settings, seed)?)
}

/// The earlier tasks for a rule.
#[derive(Clone, Copy)]
pub(super) struct EarlierTasks<'a> {
    /// Observations of the earlier tasks.
    pub(super) tasks: &'a [MetaTask],
    /// Outputs of the earlier tasks at every point of a finite domain, used only by PEM-BO. Empty
    /// if unused.
    pub(super) tables: &'a [Vec<f64>],
}

impl Rule {
    /// Creates the strategy before any observation of the target. `seed` is the run's seed.
    ///
    /// # Errors
    /// If a task cannot be modelled.
    pub(super) fn strategy(
        self,
        domain: Domain,
        earlier: EarlierTasks<'_>,
        seed: Seed,
    ) -> anyhow::Result<Box<dyn Strategy>> {
        let (dim, tasks) = (domain.dim(), earlier.tasks);
        // The objectives are deterministic, so no point is evaluated twice.
        let repeats = Repeats::Avoid;
        Ok(match self {
            Self::GpUcb => Box::new(gp_ucb(domain, seed)?),
            Self::WarmStart => {
                let mut order = tasks.to_vec();
                let mut stream = seed.stream(fedbo_strategies::META_TASK, 0, 0);
                stream.shuffle(&mut order);
                let then = Box::new(gp_ucb(domain, seed)?);
                Box::new(WarmStart::new(&order, dim, then))
            }
            Self::LogEi => {
                let settings = LogEiSettings { repeats, ..LogEiSettings::for_study(dim, true) };
                Box::new(LogEi::new(domain, settings, seed)?)
            }
            Self::Ts => Box::new(ThompsonSampling::new(domain, thompson(dim), seed)?),
            Self::RmGpUcb(scale) => {
                let settings = robust(dim, scale, MetaBeliefSettings::default());
                Box::new(RmGpUcb::new(domain, tasks, settings, seed)?)
            }
            Self::LargestGap => {
                let gap_bound = GapBound { summary: GapSummary::Max, ..GapBound::practical() };
                let belief = MetaBeliefSettings { gap_bound, ..MetaBeliefSettings::default() };
                let settings = robust(dim, OutputScale::Common, belief);
                Box::new(RmGpUcb::new(domain, tasks, settings, seed)?)
            }
            Self::Uniform => {
                let belief = MetaBeliefSettings {
                    weighting: TaskWeighting::Uniform,
                    ..MetaBeliefSettings::default()
                };
                let settings = robust(dim, OutputScale::Common, belief);
                Box::new(RmGpUcb::new(domain, tasks, settings, seed)?)
            }
            Self::Placebo => {
                let dealt = placebo_tasks(tasks, &seed);
                let settings = robust(dim, OutputScale::Common, MetaBeliefSettings::default());
                Box::new(RmGpUcb::new(domain, &dealt, settings, seed)?)
            }
            Self::RmGpTs => {
                let settings = RmGpTsSettings {
                    thompson: thompson(dim),
                    ..RmGpTsSettings::for_study(dim, true)
                };
                Box::new(RmGpTs::new(domain, tasks, settings, seed)?)
            }
            Self::Rgpe | Self::RgpeAuthors => {
                let mut settings = RgpeSettings::for_study(dim, true);
                settings.ensemble.repeats = repeats;
                if self == Self::RgpeAuthors {
                    settings = settings.as_in_authors_code();
                }
                Box::new(Rgpe::new(domain, tasks, settings, seed)?)
            }
            Self::Taf | Self::TafAuthors => {
                let mut settings = TafSettings::for_study(dim, true);
                settings.ensemble.repeats = repeats;
                if self == Self::TafAuthors {
                    settings = settings.as_in_authors_code();
                }
                Box::new(Taf::new(domain, tasks, settings, seed)?)
            }
            Self::Mtbo => {
                let settings = MtboSettings { repeats, ..MtboSettings::for_study(dim, true) };
                Box::new(Mtbo::new(domain, tasks, settings, seed)?)
            }
            Self::PemBo => {
                let points = domain.points().cloned();
                let points = points.unwrap_or_else(|| Points::new(dim));
                Box::new(PemBo::new(points, earlier.tables, PEM_MULTIPLIER)?)
            }
        })
    }
}

fn robust(dim: usize, scale: OutputScale, belief: MetaBeliefSettings) -> RmGpUcbSettings {
    RmGpUcbSettings {
        scale,
        belief,
        repeats: Repeats::Avoid,
        ..RmGpUcbSettings::for_study(dim, true)
    }
}

fn thompson(dim: usize) -> ThompsonSettings {
    ThompsonSettings { repeats: Repeats::Avoid, ..ThompsonSettings::for_study(dim, true) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fedbo_streams::Purpose;

    use super::*;

    fn grid() -> Points {
        Points::from_flat(1, (0..9).map(|i| f64::from(i) / 8.0).collect())
    }

    fn tasks() -> Vec<MetaTask> {
        let task = |number: u32, peak: f64| {
            let inputs = grid();
            let outputs = inputs.rows().map(|x| -(x[0] - peak) * (x[0] - peak));
            MetaTask { name: format!("task {number}"), outputs: outputs.collect(), inputs }
        };
        [0.25, 0.75, 0.375, 0.5].into_iter().zip(0..).map(|(peak, n)| task(n, peak)).collect()
    }

    const FURTHER: [(&str, Rule); 6] = [
        (LARGEST, Rule::LargestGap),
        (RAW, Rule::RmGpUcb(OutputScale::Raw)),
        ("rgpe authors", Rule::RgpeAuthors),
        ("taf authors", Rule::TafAuthors),
        ("mtbo", Rule::Mtbo),
        ("pem-bo", Rule::PemBo),
    ];

    #[test]
    fn every_rule_can_be_asked_before_the_first_observation() {
        let tasks = tasks();
        let tables: Vec<Vec<f64>> = tasks.iter().map(|task| task.outputs.clone()).collect();
        let earlier = EarlierTasks { tasks: &tasks, tables: &tables };
        for arm in arms(&FURTHER) {
            let domain = Domain::Finite(Arc::new(grid()));
            let strategy = arm.rule.strategy(domain, earlier, Seed::new(1)).unwrap();
            let mut stream = Seed::new(1).stream(Purpose::PROPOSAL, 0, 0);
            let proposal = strategy.ask(&Points::new(1), &mut stream).unwrap();
            let is_point = |x: &[f64]| (x[0] - proposal.unit[0]).abs() < 1e-12;
            assert!(grid().rows().any(is_point), "{}: {proposal:?}", arm.name);
        }
    }

    #[test]
    fn a_warm_start_asks_the_best_points_of_the_tasks_first() {
        let tasks = tasks();
        let earlier = EarlierTasks { tasks: &tasks, tables: &[] };
        let domain = Domain::Finite(Arc::new(grid()));
        let mut strategy = Rule::WarmStart.strategy(domain, earlier, Seed::new(3)).unwrap();
        let mut asked = Vec::new();
        for number in 0..4 {
            let mut stream = Seed::new(1).stream(Purpose::PROPOSAL, number, 0);
            let proposal = strategy.ask(&Points::new(1), &mut stream).unwrap();
            asked.push(proposal.unit[0]);
            let told =
                fedbo_strategies::Observation::new(proposal.unit, Some(0.0), proposal.source);
            strategy.tell(&[told]).unwrap();
        }
        asked.sort_by(f64::total_cmp);
        assert_eq!(asked, [0.25, 0.375, 0.5, 0.75]);
    }

    #[test]
    fn every_arm_has_a_control_and_names_are_unique() {
        let arms = arms(&FURTHER);
        let pairs = pairs(&arms);
        for arm in &arms {
            assert_eq!(arms.iter().filter(|a| a.name == arm.name).count(), 1);
            let is_alone = matches!(arm.rule, Rule::GpUcb | Rule::LogEi | Rule::Ts);
            assert_eq!(pairs.iter().any(|(a, _)| a == arm.name), !is_alone);
        }
        for name in pairs.iter().flat_map(|(arm, control)| [arm, control]) {
            assert!(arms.iter().any(|a| a.name == name), "{name}");
        }
        let learned = |control: &str| pairs.contains(&(LEARNED.to_owned(), control.to_owned()));
        assert!(learned("gp-ucb") && CONTROLS.iter().all(|control| learned(control)));
    }
}
