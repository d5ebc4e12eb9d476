#![allow(missing_docs, clippy::all)]
use fedbo_gp::*;
use fedbo_optim::*;
use fedbo_streams::*;
use std::time::Instant;
fn main() {
    let seed = Seed::new(1);
    let read = |f: &str, t: usize| {
        let s = std::fs::read_to_string(format!("/work/shared/bench/data/{f}")).unwrap();
        let mut d = 0;
        let mut x = vec![];
        let mut y = vec![];
        for l in s.lines().skip(1).take(t) {
            let v: Vec<f64> = l.split(',').map(|a| a.parse().unwrap()).collect();
            d = v.len() - 1;
            x.extend_from_slice(&v[..d]);
            y.push(v[d]);
        }
        (Points::from_flat(d, x), y)
    };
    let bench = |name: &str, n: usize, f: &mut dyn FnMut(usize) -> f64| {
        f(0);
        let mut ts = vec![];
        let mut s = 0.0;
        for i in 0..n {
            let t = Instant::now();
            s += f(i);
            ts.push(t.elapsed().as_secs_f64());
        }
        ts.sort_by(f64::total_cmp);
        println!(
            "{name}: {:.1} us  mean value {:.4}",
            ts[n / 2] * 1e6,
            s / n as f64
        )
    };
    let d = 2;
    let map = FeatureMap::draw(
        &FeatureDescription {
            n_features: 100,
            dim: d,
            family: Family::SquaredExponential,
            lengthscale: LengthscaleLaw::Fixed(0.2),
        },
        &mut seed.stream(Purpose::Test, 0, 0),
    )
    .unwrap();
    let w = seed.stream(Purpose::Test, 1, 0).normals(100);
    let f = WeightSpaceSample::new(&map, &w).unwrap();
    let pts = sobol(d, 1024, 1);
    bench("values 1024 pts M=100", 100, &mut |_| f.values(&pts)[0]);
    let mut g = [0.0; 2];
    bench("grad M=100 x1000", 100, &mut |_| {
        let mut s = 0.0;
        for p in pts.rows() {
            s += f.value_gradient(p, &mut g)
        }
        s
    });
    let ms = MultiStart::for_dim(d);
    bench("message maximise M=100 d=2", 200, &mut |i| {
        ms.maximize(&f, i as u32, &Points::new(2))
            .unwrap()
            .best()
            .value
    });
    for (file, d, t) in [
        ("thompson_d3.csv", 3, 200),
        ("thompson_d2.csv", 2, 200),
        ("thompson_d6.csv", 6, 200),
    ] {
        let (x, y) = read(file, t);
        let k =
            Kernel::isotropic(Family::SquaredExponential, d, 0.2 * (d as f64).sqrt(), 1.0).unwrap();
        bench("  posterior", 100, &mut |_| {
            Posterior::new(k.clone(), 0.01, x.clone(), y.clone())
                .unwrap()
                .alpha()[0]
        });
        let post = Posterior::new(k.clone(), 0.01, x.clone(), y.clone()).unwrap();
        for nf in [256, 512, 1024] {
            bench("  draw", 100, &mut |i| {
                let s = PathwiseSample::draw(
                    &post,
                    Prior { n_features: nf },
                    1.0,
                    &mut seed.stream(Purpose::Test, 2, i as u64),
                )
                .unwrap();
                s.dim() as f64
            });
            let ms = MultiStart::for_dim(d);
            bench(
                &format!("thompson query d={d} t={t} nf={nf}"),
                200,
                &mut |i| {
                    let post = Posterior::new(k.clone(), 0.01, x.clone(), y.clone()).unwrap();
                    let s = PathwiseSample::draw(
                        &post,
                        Prior { n_features: nf },
                        1.0,
                        &mut seed.stream(Purpose::Test, 2, i as u64),
                    )
                    .unwrap();
                    ms.maximize(&s, i as u32, &Points::new(d))
                        .unwrap()
                        .best()
                        .value
                },
            );
        }
    }
    for t in [50, 200, 1000] {
        let (x, y) = read("hyperfit_d3.csv", t);
        let k = Kernel::isotropic(Family::SquaredExponential, 3, 1.0, 1.0).unwrap();
        bench("  evidence", 5, &mut |_| {
            evidence(&k, 0.1, &x, &y).unwrap().value
        });
        let o = FitOptions {
            criterion: FitCriterion::MaximumLikelihood,
            n_restarts: 0,
            ..Default::default()
        };
        let mut ne = 0;
        bench(&format!("fit t={t}"), 5, &mut |_| {
            let f = fit(
                &Hyperparameters {
                    kernel: k.clone(),
                    noise_variance: 0.1,
                },
                &x,
                &y,
                &o,
                &mut seed.stream(Purpose::Test, 3, 0),
            )
            .unwrap();
            ne = f.n_evaluations;
            f.value
        });
        println!("evals {ne}");
    }
}
