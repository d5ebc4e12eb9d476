//! Meta-tasks and their models.

use std::fmt;

use fedbo_gp::Predictor;
use fedbo_gp::linalg::PackedLower;
use fedbo_optim::Points;
use fedbo_streams::Seed;

use super::OutputScale;
use super::comparison::{Exchange, TaskUnits};
use crate::{Observation, OutputOption, Source, StrategyError, Surrogate, SurrogateSettings};

/// Observations of an earlier task.
#[derive(Clone, Debug, PartialEq)]
pub struct MetaTask {
    /// Name of the task in reports.
    pub name: String,
    /// x_{i,j}: coordinates in the target's unit cube, N_i×d.
    pub inputs: Points,
    /// y_{i,j}: N_i values in the task's own units (larger is better).
    pub outputs: Vec<f64>,
}

impl MetaTask {
    /// Creates a surrogate with these observations. Non-finite outputs are skipped.
    pub(crate) fn surrogate(
        &self,
        settings: &SurrogateSettings,
        seed: Seed,
    ) -> Result<Surrogate, StrategyError> {
        assert_eq!(
            self.inputs.len(),
            self.outputs.len(),
            "{} inputs and {} outputs of {}",
            self.inputs.len(),
            self.outputs.len(),
            self.name
        );
        let mut surrogate = Surrogate::new(self.inputs.dim(), settings.clone(), None, seed)?;
        let observed = self.inputs.rows().zip(&self.outputs);
        let observed: Vec<Observation> = observed
            .map(|(unit, value)| Observation::new(unit.to_vec(), Some(*value), Source::Initial))
            .collect();
        surrogate.tell(&observed)?;
        StrategyError::ensure(
            !surrogate.is_empty(),
            "meta-task",
            &self.name,
            "at least one finite value",
        )?;
        Ok(surrogate)
    }
}

/// A fixed model of one meta-task.
pub trait TaskModel: fmt::Debug + Send + Sync {
    /// Returns the name of the task.
    fn name(&self) -> &str;

    /// Returns the dimension d of the inputs.
    fn dim(&self) -> usize;

    /// Returns the largest observed output, in the model's units.
    fn largest_output(&self) -> f64;

    /// Returns the posterior means (m) and variances (m) of the latent function at m points.
    fn mean_variances(&self, points: &Points) -> (Vec<f64>, Vec<f64>);

    /// Returns the mean and the variance at x (length d), and writes their gradients.
    ///
    /// # Panics
    /// If `x` or a gradient does not have length d.
    fn predict(
        &self,
        x: &[f64],
        mean_gradient: &mut [f64],
        variance_gradient: &mut [f64],
    ) -> (f64, f64);

    /// Returns the joint posterior of the latent function at m points: the means (m) and the lower
    /// triangle of the covariance.
    fn joint(&self, points: &Points) -> (Vec<f64>, PackedLower);
}

/// The exact Gaussian process of a meta-task, factored once.
#[derive(Clone, Debug)]
pub struct GpTask {
    name: String,
    predictor: Predictor<'static>,
}

impl GpTask {
    /// Conditions a Gaussian process on the task's observations, with hyperparameters chosen as
    /// `settings` specifies. Non-finite outputs are skipped. Cost: O(N_i³) per hyperparameter fit,
    /// plus one factorization.
    ///
    /// # Errors
    /// If the task has no finite output or no posterior.
    pub fn new(
        task: &MetaTask,
        settings: &SurrogateSettings,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        let surrogate = task.surrogate(settings, seed)?;
        Ok(Self {
            name: task.name.clone(),
            predictor: surrogate.posterior().clone().into_predictor(),
        })
    }

    /// Returns x_{i,j}, N_i×d. If there are very many observations, contains only those on which
    /// the posterior is conditioned ([`Surrogate::MAX_CONDITIONED`]).
    pub fn inputs(&self) -> &Points {
        self.predictor.posterior().inputs()
    }

    /// Returns y_{i,j} (N_i), in the units of comparison, for the same observations as the inputs.
    pub fn outputs(&self) -> &[f64] {
        self.predictor.posterior().outputs()
    }

    /// Returns the posterior, prepared for evaluation point by point.
    pub fn predictor(&self) -> &Predictor<'static> {
        &self.predictor
    }
}

impl TaskModel for GpTask {
    fn name(&self) -> &str {
        &self.name
    }

    fn dim(&self) -> usize {
        self.inputs().dim()
    }

    fn largest_output(&self) -> f64 {
        let outputs = self.outputs().iter().copied();
        outputs.fold(f64::NEG_INFINITY, f64::max)
    }

    fn mean_variances(&self, points: &Points) -> (Vec<f64>, Vec<f64>) {
        self.predictor.posterior().mean_variances(points)
    }

    fn predict(
        &self,
        x: &[f64],
        mean_gradient: &mut [f64],
        variance_gradient: &mut [f64],
    ) -> (f64, f64) {
        let prediction = self.predictor.predict(x);
        let whitened = prediction.whitened();
        prediction.gradient(1.0, vec![0.0; whitened.len()], mean_gradient);
        let weights = whitened.iter().map(|v| -2.0 * v).collect();
        prediction.gradient(0.0, weights, variance_gradient);
        (prediction.mean(), prediction.variance())
    }

    fn joint(&self, points: &Points) -> (Vec<f64>, PackedLower) {
        self.predictor.posterior().joint(points)
    }
}

/// Models of all meta-tasks, in units that can be compared with the target's.
#[derive(Clone, Debug)]
pub struct TaskModels {
    scale: OutputScale,
    units: TaskUnits,
    tasks: Vec<GpTask>,
}

impl TaskModels {
    /// Fits one model per task. `seed` is used for hyperparameter fits.
    ///
    /// # Errors
    /// If there is no task, the tasks have different dimensions, or a task cannot be modelled.
    pub fn fit(
        tasks: &[MetaTask],
        scale: OutputScale,
        surrogate: &SurrogateSettings,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        let Some(first) = tasks.first() else {
            return Err(StrategyError::setting("meta-tasks", "none", "at least one"));
        };
        if let Some(other) = tasks.iter().find(|task| task.inputs.dim() != first.inputs.dim()) {
            return Err(StrategyError::setting(
                "dimension of a meta-task",
                format!("{} ({})", other.inputs.dim(), other.name),
                "the dimension of the other meta-tasks",
            ));
        }
        let units = TaskUnits::of(scale, tasks);
        let settings = affine(surrogate.clone(), scale == OutputScale::Own);
        let models = (0..).zip(tasks).map(|(index, task)| {
            let outputs = task.outputs.iter().map(|v| units.apply(*v));
            let task = MetaTask { outputs: outputs.collect(), ..task.clone() };
            GpTask::new(&task, &settings, seed.child(crate::META_TASK, index))
        });
        let tasks = models.collect::<Result<Vec<_>, _>>()?;
        Ok(Self { scale, units, tasks })
    }

    /// Returns the models, one per task, in task order.
    pub fn tasks(&self) -> &[GpTask] {
        &self.tasks
    }

    /// Returns the units of comparison.
    pub fn scale(&self) -> OutputScale {
        self.scale
    }

    /// Returns the dimension d of the inputs.
    pub fn dim(&self) -> usize {
        self.tasks[0].dim()
    }

    /// Returns the size n of a single GP that would cost as much to evaluate, O(n²), as these tasks
    /// and a target with `n_own` observations together.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "numbers of observations are far below 2^53"
    )]
    pub(super) fn search_size(&self, parts: &[(usize, f64)], n_own: usize) -> usize {
        let counts = parts.iter().map(|(task, _)| self.tasks[*task].inputs().len());
        let squares: f64 = counts.map(|n| (n as f64).powi(2)).sum();
        (squares + (n_own as f64).powi(2)).sqrt() as usize
    }

    /// Returns the best observed input of each of the given tasks, for at most the 16 tasks with
    /// the largest weights.
    pub(super) fn best_inputs(&self, parts: &[(usize, f64)]) -> Points {
        const N_MAX: usize = 16;
        let mut parts = parts.to_vec();
        parts.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut starts = Points::new(self.dim());
        for (task, _) in parts.into_iter().take(N_MAX) {
            let task = &self.tasks[task];
            let outputs = task.outputs();
            let best = (0..outputs.len()).max_by(|a, b| outputs[*a].total_cmp(&outputs[*b]));
            if let Some(best) = best {
                starts.push(task.inputs().row(best));
            }
        }
        starts
    }

    /// Returns the settings for the target's surrogate, which must make the same assumptions about
    /// outputs as the tasks' models.
    pub fn target_settings(&self, surrogate: SurrogateSettings) -> SurrogateSettings {
        let has_own = matches!(self.scale, OutputScale::Own | OutputScale::Typical);
        affine(surrogate, has_own)
    }

    /// Converts an observation to the units of the target's surrogate.
    pub fn target_observation(&self, observation: &Observation) -> Observation {
        Observation {
            value: observation.value.map(|v| match self.scale {
                OutputScale::Typical => v, // the target's surrogate standardizes it
                _ => self.units.apply(v),
            }),
            ..observation.clone()
        }
    }

    /// Returns the conversion of the tasks' and the target's models to common units.
    pub(super) fn exchange(&self, target: &Surrogate) -> Exchange {
        Exchange::of(&self.units, target)
    }
}

/// Returns the settings with or without standardized outputs. Only affine maps are applied, because
/// values warped in any other way are not comparable across tasks.
fn affine(mut settings: SurrogateSettings, standardize: bool) -> SurrogateSettings {
    settings.standardize = standardize;
    settings.with_outputs(OutputOption::None)
}
