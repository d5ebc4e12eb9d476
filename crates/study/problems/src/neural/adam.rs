//! Gradient descent with a separate step length for each parameter.

/// Decay β₁ of the mean of gradients.
const MEAN_DECAY: f64 = 0.9;
/// Decay β₂ of the mean of squared gradients.
const SQUARE_DECAY: f64 = 0.999;
/// ε, which prevents division by zero.
const TINY: f64 = 1e-8;

/// Adam's state after past gradients g_1, .., g_t (Kingma & Ba 2015, Algorithm 1):
///
/// m ← β₁ m + (1 − β₁) g,   v ← β₂ v + (1 − β₂) g²,   θ ← θ − η (m/(1 − β₁ᵗ)) / (√(v/(1 − β₂ᵗ)) + ε)
#[derive(Clone, Debug)]
pub struct Adam {
    mean: Vec<f64>,
    square: Vec<f64>,
    /// β₁ᵗ and β₂ᵗ.
    powers: [f64; 2],
}

impl Adam {
    /// Creates the state before the first gradient, for `n_parameters` parameters.
    pub fn new(n_parameters: usize) -> Self {
        Self { mean: vec![0.0; n_parameters], square: vec![0.0; n_parameters], powers: [1.0; 2] }
    }

    /// Moves the parameters by a step of rate η (`rate`) against `gradient`.
    pub fn step(&mut self, parameters: &mut [f64], gradient: &[f64], rate: f64) {
        assert_eq!(parameters.len(), self.mean.len(), "parameters");
        assert_eq!(gradient.len(), self.mean.len(), "slopes");
        self.powers[0] *= MEAN_DECAY;
        self.powers[1] *= SQUARE_DECAY;
        let [mean_share, square_share] = self.powers.map(|power| 1.0 / (1.0 - power));
        let moments = self.mean.iter_mut().zip(&mut self.square);
        for ((parameter, slope), (mean, square)) in parameters.iter_mut().zip(gradient).zip(moments)
        {
            *mean = MEAN_DECAY * *mean + (1.0 - MEAN_DECAY) * slope;
            *square = SQUARE_DECAY * *square + (1.0 - SQUARE_DECAY) * slope * slope;
            *parameter -= rate * (mean_share * *mean) / ((square_share * *square).sqrt() + TINY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gradients 2, −1 and 0.5, computed by hand: the first step is η times the sign; later steps
    /// use the sums of the definition, written out.
    #[test]
    fn steps_are_those_of_the_algorithm() {
        let (mut adam, rate) = (Adam::new(2), 0.1);
        let mut parameters = [1.0, -3.0];
        let slopes = [[2.0, 0.0], [-1.0, 0.0], [0.5, 4.0]];
        let mut expected = parameters;
        for t in 1..=3 {
            adam.step(&mut parameters, &slopes[t - 1], rate);
            for (k, expected) in expected.iter_mut().enumerate() {
                let sum = |decay: f64, power: i32| {
                    let share = |s: usize| decay.powi((t - 1 - s).try_into().unwrap());
                    let terms = (0..t).map(|s| share(s) * slopes[s][k].powi(power));
                    terms.sum::<f64>() / (0..t).map(share).sum::<f64>()
                };
                *expected -= rate * sum(0.9, 1) / (sum(0.999, 2).sqrt() + 1e-8);
                assert!((parameters[k] - *expected).abs() < 1e-12, "{parameters:?}");
            }
            if t == 1 {
                assert!((parameters[0] - 0.9).abs() < 1e-9);
            }
        }
    }
}
