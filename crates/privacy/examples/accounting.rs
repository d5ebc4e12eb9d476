//! Computes the threat model's anchors with every accountant, and measures the run times:
//! `cargo run --release -p fedbo-privacy --example accounting`.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "the example prints results and measures run times"
)]

use std::error::Error;
use std::time::Instant;

use fedbo_privacy::accounting::{
    Accountant, AccountantKind, Delta, Noise, NoiseMultiplier, PldAccountant, PrivacyEvent,
    Sampling, SamplingRate,
};

fn main() -> Result<(), Box<dyn Error>> {
    let (d200, d29) = (200_f64.powf(-1.1), 29_f64.powf(-1.1));
    let settings = [
        (0.25, 1.0, 40, d200),
        (0.15, 1.0, 40, d200),
        (0.5, 1.0, 40, d200),
        (0.25, 1.2, 40, d200),
        (0.25, 1.5, 40, d200),
        (0.35, 1.0, 60, d29),
        (0.35, 4.0, 60, d29),
        (0.25, 1.0, 40, 1e-5),
        (1.0, 2.0, 10, 1e-5),
        (0.25, 1.0, 40, 1e-300),
        (0.001, 0.7, 1_000_000, 1e-8),
        (0.25, 1.0, 10_000_000, 1e-5),
    ];
    println!("q\tz\trounds\tdelta\tpld from\tto\tms\trenyi\tms\tmoments\tms");
    for (q, z, rounds, delta) in settings {
        let event = PrivacyEvent {
            sampling: Sampling::Poisson(SamplingRate::new(q)?),
            noise: Noise::Gaussian(NoiseMultiplier::new(z)?),
        };
        let at = Delta::new(delta)?;
        let mut pld = PldAccountant::new();
        pld.compose(&event, rounds)?;
        let lower = pld.epsilon_bracket(at)?.lower;
        let mut line = format!("{q}\t{z}\t{rounds}\t{delta:.3e}\t{lower:.5}");
        for kind in [AccountantKind::Pld, AccountantKind::Renyi, AccountantKind::Moments] {
            let mut accountant = kind.accountant();
            accountant.compose(&event, rounds)?;
            let start = Instant::now();
            let epsilon = accountant.epsilon(at)?;
            let took = 1e3 * start.elapsed().as_secs_f64();
            line += &format!("\t{epsilon:.5}\t{took:.1}");
        }
        println!("{line}");
    }
    Ok(())
}
