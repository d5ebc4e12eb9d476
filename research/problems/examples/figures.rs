//! Measures the figures of docs/decisions/0004 and 0005.
//!
//! Run in the folder `research`:
//! `cargo run --release -p fedbo-research-problems --example figures DIR`.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program whose only purpose is to measure and to print"
)]

use std::path::PathBuf;
use std::time::Instant;

use fedbo_research_problems::{LandmineSvm, Problem, WineSites, WineSvm, read_fields};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if let Some(folder) = std::env::args_os().nth(1) {
        landmine(&PathBuf::from(folder))?;
    }
    wine()
}

/// Measures the agreement with the reference and the time per evaluation.
fn landmine(folder: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
    let started = Instant::now();
    let fields = read_fields(folder)?;
    println!("landmine: read in {:.1} ms", started.elapsed().as_secs_f64() * 1e3);
    let started = Instant::now();
    let machines: Vec<LandmineSvm> = (0..fields.len())
        .map(|field| LandmineSvm::new(&fields, field))
        .collect::<Result<_, _>>()?;
    println!("landmine: 29 fields prepared in {:.1} ms", started.elapsed().as_secs_f64() * 1e3);
    let mut points = Vec::new();
    for record in csv::Reader::from_path(folder.join("landmine/svm_auc_reference.csv"))?.records() {
        let record = record?;
        let number = |column: usize| record[column].parse::<f64>();
        points.push((record[0].parse::<usize>()?, number(3)?, number(4)?, number(5)?));
    }
    let started = Instant::now();
    let mut times = Vec::new();
    let mut differences = Vec::new();
    for &(field, c, gamma, expected) in &points {
        let one = Instant::now();
        differences.push((machines[field].auc(c, gamma)? - expected).abs());
        times.push(one.elapsed().as_secs_f64() * 1e3);
    }
    let total_ms = started.elapsed().as_secs_f64() * 1e3;
    differences.sort_by(f64::total_cmp);
    times.sort_by(f64::total_cmp);
    let n = points.len();
    println!(
        "landmine: {n} points, mean {:.3} ms, median {:.3} ms, slowest {:.3} ms",
        total_ms / n as f64,
        times[n / 2],
        times[n - 1]
    );
    println!(
        "landmine: |difference| largest {:.6}; {} equal to six digits",
        differences[n - 1],
        differences.iter().filter(|d| **d < 1e-6).count()
    );
    Ok(())
}

/// A point of a surface: AUC, C, gamma, and whether it lies on the edge of the grid.
type GridPoint = (f64, f64, f64, bool);

/// Number of steps of the grid in C and in gamma.
const STEPS: (u32, u32) = (25, 21);

fn surface(problem: &WineSvm) -> Result<Vec<GridPoint>, Box<dyn std::error::Error>> {
    let mut points = Vec::new();
    for i in 0..STEPS.0 {
        for j in 0..STEPS.1 {
            let unit =
                [f64::from(i) / f64::from(STEPS.0 - 1), f64::from(j) / f64::from(STEPS.1 - 1)];
            let point = problem.space().decode(&unit);
            let at = |name| point.get(name).and_then(fedbo_space::Value::as_f64);
            let (c, gamma) = at("C").zip(at("gamma")).ok_or("not a number")?;
            let edge = i == 0 || j == 0 || i + 1 == STEPS.0 || j + 1 == STEPS.1;
            points.push((problem.auc(c, gamma)?, c, gamma, edge));
        }
    }
    Ok(points)
}

/// Prints the surface of each site: its best point, its median and worst values, and the loss at
/// the best point of the other sites' mean.
fn wine() -> Result<(), Box<dyn std::error::Error>> {
    let started = Instant::now();
    let sites = WineSites::new(8)?;
    println!("wine: split in {:.1} ms", started.elapsed().as_secs_f64() * 1e3);
    let mut surfaces = Vec::new();
    let mut times = Vec::new();
    for silo in 0..sites.silos().len() {
        let problem = WineSvm::new(&sites, silo)?;
        let started = Instant::now();
        surfaces.push(surface(&problem)?);
        times.push(started.elapsed().as_secs_f64() * 1e3 / f64::from(STEPS.0 * STEPS.1));
    }
    let n_points = surfaces[0].len();
    let best = |value: &dyn Fn(usize) -> f64| {
        (0..n_points).max_by(|a, b| value(*a).total_cmp(&value(*b))).unwrap_or(0)
    };
    println!(
        "site rows good  best   C        gamma    edge  median worst   lost at others' best  ms"
    );
    for (index, (silo, own)) in sites.silos().iter().zip(&surfaces).enumerate() {
        let top = own[best(&|k| own[k].0)];
        let others = best(&|k| {
            let sum: f64 = surfaces.iter().map(|surface| surface[k].0).sum();
            sum - own[k].0
        });
        let mut sorted: Vec<f64> = own.iter().map(|point| point.0).collect();
        sorted.sort_by(f64::total_cmp);
        println!(
            "{index:4} {:4} {:.2}  {:.4} {:<8.3} {:<8.4} {:5} {:.4} {:.4}  {:.4}                {:.2}",
            silo.len(),
            silo.share_good(),
            top.0,
            top.1,
            top.2,
            top.3,
            sorted[n_points / 2],
            sorted[0],
            top.0 - own[others].0,
            times[index],
        );
    }
    println!(
        "surfaces: AUC in percent, C from 1e-3 down to 1e3, gamma from 1e-4 across to 1e1, every second step"
    );
    for (index, own) in surfaces.iter().enumerate() {
        println!("site {index}");
        for row in own.chunks_exact(STEPS.1 as usize).step_by(2) {
            let cells: Vec<String> =
                row.iter().step_by(2).map(|point| format!("{:3.0}", 100.0 * point.0)).collect();
            println!("  {}", cells.join(" "));
        }
    }
    Ok(())
}
