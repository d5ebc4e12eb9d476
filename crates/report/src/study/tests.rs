//! What the pictures of a study hold, and that awkward data give pictures too.
use super::*;

fn demo(case: &str) -> StudyPlot {
    let n = match case {
        "one" => 1,
        "many" => 1500,
        _ => 60,
    };
    let p = match case {
        "p1" => 1,
        "p2" => 2,
        "p20" => 20,
        _ => 6,
    };
    let mut u = 0.37_f64;
    let mut next = || {
        u = (u * 997.123 + 0.1234).fract();
        u
    };
    let ranges = [
        (
            "learning_rate",
            PlottedRange::Float {
                low: 1e-5,
                high: 1e-1,
                log: true,
            },
        ),
        (
            "layers",
            PlottedRange::Int {
                low: 1,
                high: 5,
                log: false,
            },
        ),
        (
            "optimizer",
            PlottedRange::Categorical {
                choices: ["adam", "sgd", "rmsprop"].map(str::to_owned).to_vec(),
            },
        ),
        (
            "dropout",
            PlottedRange::Float {
                low: 0.0,
                high: 0.5,
                log: false,
            },
        ),
        (
            "model.encoder.layers.0.attention.heads.width_multiplier",
            PlottedRange::Int {
                low: 16,
                high: 4096,
                log: true,
            },
        ),
        (
            "activation",
            PlottedRange::Categorical {
                choices: (0..9).map(|i| format!("activation-{i}-smooth")).collect(),
            },
        ),
        (
            "offset",
            PlottedRange::Float {
                low: -1e300,
                high: 1e300,
                log: false,
            },
        ),
        (
            "tiny",
            PlottedRange::Float {
                low: 1e-300,
                high: 1e-2,
                log: true,
            },
        ),
        (
            "many",
            PlottedRange::Categorical {
                choices: (0..40).map(|i| format!("c{i}")).collect(),
            },
        ),
        (
            "batch",
            PlottedRange::Int {
                low: 100000,
                high: 200000,
                log: false,
            },
        ),
    ];
    let parameters: Vec<PlottedParameter> = (0..p)
        .map(|i| {
            let (n, r) = &ranges[i % ranges.len()];
            PlottedParameter {
                name: n.to_string(),
                range: r.clone(),
            }
        })
        .collect();
    let trials = (0..n)
        .map(|i| {
            let us: Vec<f64> = (0..p).map(|_| next()).collect();
            let coords = parameters
                .iter()
                .zip(&us)
                .map(|(p, u)| match &p.range {
                    PlottedRange::Float {
                        low,
                        high,
                        log: false,
                    } => PlottedValue::Number(low * (1.0 - u) + u * high),
                    PlottedRange::Float {
                        low,
                        high,
                        log: true,
                    } => PlottedValue::Number((low.ln() + u * (high.ln() - low.ln())).exp()),
                    PlottedRange::Int { low, high, log } => {
                        let (l, h) = (*low as f64, *high as f64);
                        PlottedValue::Number(if *log {
                            (l.ln() + u * (h.ln() - l.ln())).exp().round()
                        } else {
                            (l + u * (h - l)).round()
                        })
                    }
                    PlottedRange::Categorical { choices } => {
                        PlottedValue::Choice((u * choices.len() as f64) as usize)
                    }
                })
                .collect();
            let d =
                (us[0] - 0.6).powi(2) * 8.0 + us[us.len() - 1] + 3.0 * next() / (i as f64 + 2.0);
            let value = match case {
                "failed" => None,
                "const" => Some(0.25),
                "regret" | "p20" => Some(1e-4 + d * 10f64.powf(-(i as f64) / 12.0)),
                "outlier" => Some(if i % 17 == 5 { 1e6 } else { d - 1.0 }),
                "huge" => Some([1e-300, 1e300, -1e300, 3.0, f64::MAX][i % 5]),
                "hugepos" => Some([1e-300, 1e300, 5.0, 3.0, f64::MAX][i % 5]),
                "neg" => Some(-(1e-3 + d * 10f64.powf(-(i as f64) / 15.0))),
                _ => Some(1.0 - d * 0.1),
            };
            let value = if i % 13 == 4 && case != "const" {
                None
            } else {
                value
            };
            PlottedTrial {
                number: i as u64,
                value,
                coordinates: coords,
                initial: i < 8,
            }
        })
        .collect();
    let importance = if case == "one" {
        vec![]
    } else {
        parameters
            .iter()
            .enumerate()
            .map(|(i, p)| PlottedImportance {
                parameter: p.name.clone(),
                variance_share: 0.55 / ((i * i + 1) as f64),
                relevance: 0.4 / (i as f64 + 1.2),
            })
            .collect()
    };
    StudyPlot {
        title: "Validation loss of a small network".into(),
        minimize: !matches!(case, "max" | "neg"),
        trials,
        parameters,
        importance,
    }
}

#[test]
fn demos() {
    let out = std::path::PathBuf::from(std::env::var("DUMP").unwrap());
    for case in [
        "max", "one", "many", "failed", "const", "regret", "outlier", "huge", "hugepos", "neg",
        "p1", "p2", "p20",
    ] {
        let dir = out.join(case);
        std::fs::create_dir_all(&dir).unwrap();
        demo(case).write(&dir).unwrap();
    }
}
