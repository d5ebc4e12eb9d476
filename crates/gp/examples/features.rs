//! Compares how accurately a small number of random or quasi-random frequencies approximates a
//! kernel.
//!
//! `cargo run --release -p fedbo-gp --example features` prints the root mean square of φ(x)·φ(x') −
//! k(x, x') for 20 maps of each kind, both over pairs of points at most two length scales apart and
//! over all pairs.
#![expect(clippy::print_stdout, reason = "an example that prints a table")]

use fedbo_gp::{
    Family, FeatureDescription, FeatureMap, FeatureSampling, GpError, Kernel, LengthscaleLaw,
};
use fedbo_optim::sobol;
use fedbo_streams::{Purpose, Seed};

fn main() -> Result<(), GpError> {
    println!(
        "{:>3} {:>6} {:>5} | {:>8} {:>8} | {:>8} {:>8}",
        "d", "l", "M", "near", "near q", "all", "all q"
    );
    for (dim, lengthscale) in [(1, 0.03), (1, 0.2), (2, 0.1), (2, 0.3), (4, 0.5)] {
        for n_features in [20, 50, 100, 200] {
            let errors = |sampling| errors(dim, lengthscale, n_features, sampling);
            let random = errors(FeatureSampling::Random)?;
            let quasi = errors(FeatureSampling::QuasiRandom)?;
            println!(
                "{dim:>3} {lengthscale:>6} {n_features:>5} | {:8.4} {:8.4} | {:8.4} {:8.4}",
                random.0, quasi.0, random.1, quasi.1
            );
        }
    }
    Ok(())
}

/// Returns root mean square errors over near pairs and over all pairs.
fn errors(
    dim: usize,
    lengthscale: f64,
    n_features: usize,
    sampling: FeatureSampling,
) -> Result<(f64, f64), GpError> {
    let kernel = Kernel::isotropic(Family::SquaredExponential, dim, lengthscale, 1.0)?;
    let description = FeatureDescription {
        n_features,
        dim,
        family: Family::SquaredExponential,
        lengthscale: LengthscaleLaw::Fixed(lengthscale),
        sampling,
    };
    let points = sobol(dim, 120, 3);
    let (mut near, mut all) = ((0.0, 0_u32), (0.0, 0_u32));
    for draw in 0..20 {
        let mut stream = Seed::new(11).stream(Purpose::SHARED_FEATURES, draw, 0);
        let map = FeatureMap::draw(&description, &mut stream)?;
        let features: Vec<Vec<f64>> = points.rows().map(|x| map.features(x)).collect();
        for (i, x) in points.rows().enumerate() {
            for (j, z) in points.rows().enumerate().take(i) {
                let inner: f64 = features[i].iter().zip(&features[j]).map(|(a, b)| a * b).sum();
                let error = (inner - kernel.value(x, z)).powi(2);
                let distance: f64 = x.iter().zip(z).map(|(a, b)| (a - b).powi(2)).sum();
                all = (all.0 + error, all.1 + 1);
                if distance.sqrt() < 2.0 * lengthscale {
                    near = (near.0 + error, near.1 + 1);
                }
            }
        }
    }
    let root = |(sum, n): (f64, u32)| (sum / f64::from(n.max(1))).sqrt();
    Ok((root(near), root(all)))
}
