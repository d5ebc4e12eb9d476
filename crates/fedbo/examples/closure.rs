//! Tunes a closure: `cargo run --package fedbo --example closure`.
#![expect(clippy::print_stdout, reason = "what an example is for")]

use fedbo::prelude::*;

/// Branin's function; its minimum is 0.397887, at three points.
fn branin(point: &Point) -> f64 {
    let (a, b) = (point.number("a"), point.number("b"));
    let pi = std::f64::consts::PI;
    let square = b - 5.1 / (4.0 * pi * pi) * a * a + 5.0 / pi * a - 6.0;
    square * square + 10.0 * (1.0 - 1.0 / (8.0 * pi)) * a.cos() + 10.0
}

fn main() -> Result<(), StudyError> {
    let definition = Definition::new("branin")
        .parameter("a", ParameterSpec::float(-5.0, 10.0))
        .parameter("b", ParameterSpec::float(0.0, 15.0))
        .minimize();
    let study = Study::in_memory(&definition)?;
    study.optimize(30, |point| Ok(branin(point)))?;
    if let Some(best) = study.best()? {
        let (a, b) = (best.point.number("a"), best.point.number("b"));
        println!("trial {}: f({a:.3}, {b:.3}) = {:.6}", best.number, branin(&best.point));
    }
    Ok(())
}
