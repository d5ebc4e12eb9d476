//! Micro benchmarks of the surrogates. Each benchmark measures one operation on fixed data at three
//! sizes.
//!
//! Run with `cargo xtask bench micro`. Names have the form operation/model/size; `n` counts
//! observations, `m` features.
#![allow(missing_docs, reason = "criterion's macros make functions without documentation")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fedbo_gp::{
    Family, FeatureDescription, FeatureMap, Kernel, LengthscaleLaw, PathwiseSample, Posterior,
    Prior, WeightSpaceSample, evidence,
};
use fedbo_optim::{Function, Points, sobol};
use fedbo_streams::{Purpose, Seed, Stream};

const NOISE_VARIANCE: f64 = 0.01;

fn stream(index: u64) -> Stream {
    Seed::new(1).stream(Purpose::TEST, index, 0)
}

/// Returns uniform inputs and smooth outputs with noise of standard deviation 0.1.
fn smooth(n: usize, dim: usize) -> (Points, Vec<f64>) {
    let mut stream = stream(0);
    let inputs = Points::from_flat(dim, (0..n * dim).map(|_| stream.uniform()).collect());
    let y = inputs
        .rows()
        .map(|x| x.iter().map(|v| (5.0 * v).cos()).sum::<f64>() + 0.1 * stream.normal())
        .collect();
    (inputs, y)
}

fn kernel(family: Family, dim: usize) -> Kernel {
    Kernel::isotropic(family, dim, 0.5, 1.0).expect("0.5 is a length scale and 1 a variance")
}

fn posterior(family: Family, n: usize, dim: usize) -> Posterior {
    let (inputs, y) = smooth(n, dim);
    Posterior::new(kernel(family, dim), NOISE_VARIANCE, inputs, y)
        .expect("noise makes the covariance positive definite")
}

fn posterior_fit(c: &mut Criterion) {
    let mut group = c.benchmark_group("posterior_fit/matern52_6d");
    for n in [64, 256, 1024] {
        group.bench_with_input(BenchmarkId::from_parameter(n), &n, |b, n| {
            let (inputs, y) = smooth(*n, 6);
            let kernel = kernel(Family::Matern52, 6);
            b.iter(|| Posterior::new(kernel.clone(), NOISE_VARIANCE, inputs.clone(), y.clone()));
        });
    }
}

fn evidence_and_gradient(c: &mut Criterion) {
    let mut group = c.benchmark_group("evidence/matern52_6d");
    for n in [64, 256, 1024] {
        group.bench_with_input(BenchmarkId::from_parameter(n), &n, |b, n| {
            let (inputs, y) = smooth(*n, 6);
            let kernel = kernel(Family::Matern52, 6);
            b.iter(|| evidence(&kernel, NOISE_VARIANCE, &inputs, &y));
        });
    }
}

/// Evaluates 256 points at a time. Reports the time per point.
fn pathwise_values(c: &mut Criterion) {
    let mut group = c.benchmark_group("pathwise_values/se_3d");
    let points = sobol(3, 256, 1);
    group.throughput(Throughput::Elements(256));
    for n in [64, 256, 1024] {
        group.bench_with_input(BenchmarkId::from_parameter(n), &n, |b, n| {
            let posterior = posterior(Family::SquaredExponential, *n, 3);
            let sample = PathwiseSample::draw(&posterior, Prior::default(), 1.0, &mut stream(1))
                .expect("the default prior has features");
            b.iter(|| sample.values(black_box(&points)));
        });
    }
}

/// Evaluates 256 points at a time. The throughput counts features, each with an angle, a cosine and
/// two sums.
fn message_values(c: &mut Criterion) {
    let mut group = c.benchmark_group("message_values/se_2d");
    let points = sobol(2, 256, 1);
    for m in [64, 256, 1024] {
        group.throughput(Throughput::Elements(256 * m as u64));
        group.bench_with_input(BenchmarkId::from_parameter(m), &m, |b, m| {
            let map = feature_map(*m);
            let weights = stream(2).normals(*m);
            let sample =
                WeightSpaceSample::new(&map, &weights).expect("as many weights as features");
            b.iter(|| sample.values(black_box(&points)));
        });
    }
}

/// The baseline for the vectorised cosine: the standard library's cosine in a plain loop over the
/// same number of angles.
fn standard_cosines(c: &mut Criterion) {
    let mut group = c.benchmark_group("standard_cosines");
    for m in [64, 256, 1024] {
        let angles: Vec<f64> = stream(3).normals(m).iter().map(|z| 10.0 * z).collect();
        group.throughput(Throughput::Elements(m as u64));
        group.bench_with_input(BenchmarkId::from_parameter(m), &angles, |b, angles| {
            let mut cosines = vec![0.0; angles.len()];
            b.iter(|| {
                for (c, a) in cosines.iter_mut().zip(black_box(angles)) {
                    *c = a.cos();
                }
                black_box(cosines.as_slice());
            });
        });
    }
}

fn feature_map(n_features: usize) -> FeatureMap {
    let description = FeatureDescription::random(n_features, 2, LengthscaleLaw::Fixed(0.2));
    FeatureMap::draw(&description, &mut stream(4)).expect("0.2 is a length scale")
}

criterion_group!(
    benches,
    posterior_fit,
    evidence_and_gradient,
    pathwise_values,
    message_values,
    standard_cosines
);
criterion_main!(benches);
