#![allow(missing_docs, clippy::all)]
use fedbo_experiments::catalogue::*;
use std::sync::atomic::AtomicBool;
struct P;
impl Progress for P {
    fn stage(&self, n: &str, k: usize) {
        eprintln!("{n}: {k} jobs");
    }
    fn job_ended(&self, _: &str) {}
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let t = std::time::Instant::now();
    let o = RunOptions {
        runs: a.get(2).map(|r| r.parse().unwrap()),
        seed: a.get(3).map_or(7, |s| s.parse().unwrap()),
        data: Some("/work/shared/data".into()),
        out: format!("/tmp/out/{}", a[1]).into(),
        overwrite: true,
    };
    let f = find(&a[1])
        .unwrap()
        .run(&o, &P, &AtomicBool::new(false))
        .unwrap();
    println!(
        "{}",
        fedbo_experiments::report::closing_table(&f.summary, Some(150))
    );
    for c in f.summary.configurations.iter().chain([&f.summary]) {
        for d in &c.differences {
            if let Some(e) = d.estimate {
                println!(
                    "{:18} {:14} - {:10} at {:?}: {:+.5} ± {:.5} {:?} n={}",
                    c.experiment,
                    d.arm,
                    d.control,
                    d.iteration,
                    e.mean,
                    e.standard_error.unwrap_or(0.0),
                    d.verdict,
                    e.n
                );
            }
        }
    }
    println!("{:.1}s", t.elapsed().as_secs_f64());
}
