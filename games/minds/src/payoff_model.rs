//! Model of a player's payoffs: a Gaussian process over joint actions.

use fedbo_gp::{FitOptions, Hyperparameters, Posterior, Standardizer, fit};
use fedbo_optim::Points;
use fedbo_streams::{Purpose, Seed};

use crate::ucb::BoundPurpose;
use crate::whitened::Whitened;
use crate::{Game, GameError, Ucb};

/// Maximum number of values cached for the joint actions of a game (128 MiB). Above this limit,
/// they are computed on demand.
const MOST_KEPT: usize = 1 << 24;

/// The interval between fits doubles once the number of payoffs reaches this multiple of it.
const FITS_A_DOUBLING: usize = 40;

/// Number of joint actions for which bounds are computed in one batch.
const BLOCK: usize = 4096;

/// Settings of one player's payoff model, as plain data. Players with equal settings have equal
/// models.
#[derive(Clone, Debug, PartialEq)]
pub struct PayoffModelSettings {
    /// Kernel over joint actions (D length scales) and noise. With [`Learning`], these are the
    /// values before the first fit.
    pub hyperparameters: Hyperparameters,
    /// Standardizes payoffs to mean 0 and variance 1.
    pub standardize: bool,
    /// Handling of repeated joint actions.
    pub repeats: Repeats,
    /// Settings for learning the hyperparameters; `None` keeps them fixed.
    pub learning: Option<Learning>,
}

/// Handling of a joint action that is played again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// Adds a further observation.
    Kept,
    /// Replaces the old payoff, as in the authors' code.
    Overwritten,
}

/// Learns hyperparameters, including the noise, by maximum evidence. Every fit starts from the
/// initial values and from random points.
#[derive(Clone, Debug, PartialEq)]
pub struct Learning {
    /// Number of payoffs between fits; 10 in the experiments of thesis appendix E.6.2.1. The
    /// interval doubles once there are 40 times as many payoffs, and again with each doubling of
    /// their number, because the cost of a fit is cubic in the number of payoffs.
    pub every: usize,
    /// Options of the fit.
    pub options: FitOptions,
    /// Seed of the random starts.
    pub seed: u64,
}

impl Learning {
    /// Returns true if hyperparameters are learned after `n_observed` payoffs.
    fn is_due(&self, n_observed: usize) -> bool {
        let mut step = self.every;
        while n_observed / FITS_A_DOUBLING >= step {
            step *= 2;
        }
        n_observed.is_multiple_of(step)
    }
}

/// A player's payoffs so far, and the Gaussian process conditioned on them.
#[derive(Clone, Debug)]
pub struct PayoffModel {
    player: usize,
    settings: PayoffModelSettings,
    posterior: Posterior,
    payoffs: Vec<f64>,
    standardizer: Standardizer,
    n_observed: usize,
    n_failed_fits: usize,
    grid: Option<Whitened>,
}

impl PayoffModel {
    /// Creates the prior.
    ///
    /// # Errors
    /// If the kernel's dimension differs from that of the joint actions, or a setting is out of
    /// range.
    pub fn new(
        game: &Game,
        player: usize,
        settings: PayoffModelSettings,
    ) -> Result<Self, GameError> {
        let Hyperparameters { kernel, noise_variance } = settings.hyperparameters.clone();
        if kernel.dim() != game.dim() {
            return Err(GameError::Count {
                what: "length scales of a payoff model",
                found: kernel.dim(),
                expected: game.dim(),
            });
        }
        if settings.learning.as_ref().is_some_and(|l| l.every == 0) {
            return Err(GameError::Setting {
                name: "every",
                value: "0".into(),
                expected: "at least 1 payoff between two fits",
            });
        }
        let posterior =
            Posterior::new(kernel, noise_variance, Points::new(game.dim()), Vec::new())?;
        Ok(Self {
            player,
            settings,
            posterior,
            payoffs: Vec::new(),
            standardizer: Standardizer::RAW,
            n_observed: 0,
            n_failed_fits: 0,
            grid: None,
        })
    }

    /// Returns the number of the player that receives these payoffs.
    pub fn player(&self) -> usize {
        self.player
    }

    /// Returns the settings with which the model was created.
    pub fn settings(&self) -> &PayoffModelSettings {
        &self.settings
    }

    /// Returns the posterior of the Gaussian process, in standardized or raw units.
    pub fn posterior(&self) -> &Posterior {
        &self.posterior
    }

    /// Returns the number of failed fits. After a failed fit, the hyperparameters stay unchanged.
    pub fn n_failed_fits(&self) -> usize {
        self.n_failed_fits
    }

    /// Returns the mean and standard deviation of the noise-free payoff at a joint action (D). Cost
    /// O(n²).
    pub fn predict(&self, joint: &[f64]) -> (f64, f64) {
        let (mean, variance) = self.posterior.mean_variance(joint);
        (self.standardizer.restore(mean), self.standardizer.restore_std(variance.sqrt()))
    }

    /// Returns the information gain of the observed joint actions X, ½ ln det(I + σ⁻² k(X, X)),
    /// which bounds the sum of their variances (Srinivas et al. 2010, Lemma 5.3). The gain is
    /// infinite without noise.
    pub fn information_gain(&self) -> f64 {
        let noise = self.posterior.noise_variance() + self.posterior.factor().jitter();
        let n = crate::error::count(self.posterior.len());
        if n < 1.0 {
            return 0.0;
        }
        0.5 * (self.posterior.factor().log_determinant() - n * noise.ln())
    }

    /// Adds a payoff. Costs O(n²) if no fit is due.
    ///
    /// # Errors
    /// If a number is not finite, or the covariance cannot be factorized.
    pub fn observe(&mut self, joint: &[f64], payoff: f64) -> Result<(), GameError> {
        let same = |row: &[f64]| row.iter().zip(joint).all(|(a, b)| a.total_cmp(b).is_eq());
        let known = match self.settings.repeats {
            Repeats::Kept => None,
            Repeats::Overwritten => self.posterior.inputs().rows().position(same),
        };
        match known {
            Some(place) => self.payoffs[place] = payoff,
            None => {
                self.posterior.append(joint, 0.0)?;
                self.payoffs.push(payoff);
            }
        }
        self.n_observed += 1;
        if self.settings.standardize {
            self.standardizer = Standardizer::new(&self.payoffs);
        }
        let y = self.payoffs.iter().map(|v| self.standardizer.standardize(*v));
        let y: Vec<f64> = y.collect();
        if !self.learn(&y)? {
            self.posterior.set_outputs(y)?;
        }
        Ok(())
    }

    /// If a fit is due, fits the hyperparameters and conditions on y with the result. Returns false
    /// if the posterior is unchanged.
    fn learn(&mut self, y: &[f64]) -> Result<bool, GameError> {
        let Some(learning) = &self.settings.learning else {
            return Ok(false);
        };
        if !learning.is_due(self.n_observed) || y.len() < 2 {
            return Ok(false);
        }
        let seed = Seed::new(learning.seed);
        let mut stream = seed.stream(Purpose::HYPERPARAMETER_FIT, self.n_observed as u64, 0);
        let inputs = self.posterior.inputs();
        let start = &self.settings.hyperparameters;
        let found = fit(start, inputs, y, &learning.options, &mut stream);
        let found = found.and_then(|fitted| {
            let Hyperparameters { kernel, noise_variance } = fitted.hyperparameters;
            Posterior::new(kernel, noise_variance, inputs.clone(), y.to_vec())
        });
        match found {
            Ok(posterior) => {
                self.posterior = posterior;
                Ok(true)
            }
            Err(_) => {
                self.n_failed_fits += 1;
                Ok(false)
            }
        }
    }

    /// Returns α at each of the given m joint actions (m×D). Cost O(n² m).
    pub(crate) fn bounds(&self, cells: &Points, ucb: &Ucb, factor: f64) -> Vec<f64> {
        let mut bounds = Vec::with_capacity(cells.len());
        let flat = cells.as_flat().chunks(BLOCK * cells.dim());
        for block in flat {
            let mut whitened = Whitened::new(&Points::from_flat(cells.dim(), block.to_vec()));
            whitened.extend(&self.posterior);
            bounds.extend(self.widened(&whitened, ucb, factor));
        }
        bounds
    }

    /// Returns α at all joint actions, in the order of their numbers, or `None` if there are too
    /// many to cache or infinitely many. Cost O(n m) for one new round.
    pub(crate) fn grid_bounds(&mut self, game: &Game, ucb: &Ucb, factor: f64) -> Option<Vec<f64>> {
        let n_joint = game.n_joint()?;
        let kept = n_joint.checked_mul(self.posterior.len() + game.dim() + 1)?;
        if kept > MOST_KEPT {
            self.grid = None;
            return None;
        }
        let mut grid = match self.grid.take() {
            Some(grid) => grid,
            None => Whitened::new(&game.joint_points()),
        };
        grid.extend(&self.posterior);
        let bounds = self.widened(&grid, ucb, factor);
        self.grid = Some(grid);
        Some(bounds)
    }

    fn widened(&self, whitened: &Whitened, ucb: &Ucb, factor: f64) -> Vec<f64> {
        let (means, variances) = whitened.means_variances(&self.posterior);
        let noise = self.noise_of(ucb);
        let (scale, level) = (self.standardizer.restore_std(1.0), self.standardizer.restore(0.0));
        let bound = |(mean, variance): (&f64, f64)| {
            level + scale * (mean + factor * (variance + noise).sqrt())
        };
        means.iter().zip(variances).map(bound).collect()
    }

    /// Returns the noise variance included in the bound; 0 for a bound without noise.
    pub(crate) fn noise_of(&self, ucb: &Ucb) -> f64 {
        if ucb.with_noise { self.posterior.noise_variance() } else { 0.0 }
    }

    /// Returns the affine map from process units to payoffs: the payoff at 0, and the payoff
    /// difference per unit.
    pub(crate) fn level_and_scale(&self) -> (f64, f64) {
        (self.standardizer.restore(0.0), self.standardizer.restore_std(1.0))
    }

    /// Returns β_t^{1/2} for this player.
    pub(crate) fn factor(&self, game: &Game, ucb: &Ucb, t: usize, of: BoundPurpose) -> f64 {
        ucb.factor(game, self.player, t, of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fits_grow_rarer_as_payoffs_grow_many() {
        let learning = Learning { every: 10, options: FitOptions::default(), seed: 0 };
        let due: Vec<usize> = (1..=1700).filter(|n| learning.is_due(*n)).collect();
        let early: Vec<usize> = (1..=40).map(|k| 10 * k).collect();
        assert_eq!(due[..40], early);
        assert_eq!(due[40..42], [420, 440]);
        let gaps: Vec<usize> = due.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.is_sorted(), "{gaps:?}");
        assert_eq!((due.len(), gaps.last()), (81, Some(&80)));
    }
}
