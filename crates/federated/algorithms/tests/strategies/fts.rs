//! Tests of FTS Algorithm 1, line by line: p_t, P_N, used and restored messages, stragglers, and
//! refused messages.

use fedbo_federated::fts::{AgentSampling, Fts};
use fedbo_gp::{MapHash, WeightSpaceSample};
use fedbo_optim::{Direct, Function, Points};
use fedbo_protocol::MessageRejected;
use fedbo_strategies::{
    Collaborator, LocalProb, LogEi, LogEiSettings, Maximizer, Repeats, Source, Strategy,
    ThompsonSettings,
};
use fedbo_streams::Seed;
use fedbo_testkit::{statistics::check_chi_squared, test_stream};

use crate::agents::{MESSAGE, fts_with, map, small_fts, with_messages};
use crate::common::{AskAlone, SEED, count, initial, line, observed, own, unit_box};

const NEVER_OWN: LocalProb = LocalProb::Constant(0.0);

/// Counts how often `n` streams choose each of `senders`. The last count is for the agent's own
/// proposals.
fn tally(fts: &Fts, senders: &[u32], n: u64) -> Vec<f64> {
    let mut counts = vec![0.0; senders.len() + 1];
    for stream in 0..n {
        let place = match fts.ask_alone(&mut test_stream(stream)).unwrap().source {
            Source::Message { sender } => senders.iter().position(|s| *s == sender).unwrap(),
            Source::Own => senders.len(),
            other => panic!("{other:?}"),
        };
        counts[place] += 1.0;
    }
    counts
}

/// Chi-squared test of counts against probabilities, at level 1e-4. Classes with probability 0 must
/// be empty.
fn follows(counts: &[f64], probabilities: &[f64]) -> Result<(), String> {
    let total: f64 = counts.iter().sum();
    let (mut statistic, mut degrees) = (0.0, -1.0);
    for (found, p) in counts.iter().zip(probabilities) {
        if *p > 0.0 {
            statistic += (found - p * total).powi(2) / (p * total);
            degrees += 1.0;
        } else if *found > 0.0 {
            return Err(format!("{found} draws of probability 0"));
        }
    }
    check_chi_squared(statistic, degrees, 1e-4)
}

/// Line 6: with p_t = 0 and one message ω, the proposal is argmax φ(x)·ω. No point of a dense grid
/// is better, and the maximizer of −ω is far worse. On a finite domain, the proposal is exactly the
/// best point.
#[test]
fn a_message_proposes_the_maximizer_of_its_function() {
    for dim in [1, 2] {
        let side = if dim == 1 { 100_001 } else { 401 };
        let axis: Vec<f64> = (0..side).map(|i| f64::from(i) / f64::from(side - 1)).collect();
        let grid = if dim == 1 {
            Points::from_flat(1, axis)
        } else {
            let rows = axis.iter().flat_map(|a| axis.iter().map(move |b| [*a, *b]));
            Points::from_rows(2, rows)
        };
        let map = map(dim, 40);
        for draw in 0..5 {
            let weights = test_stream(draw).normals(40);
            let mut settings = own(dim);
            settings.maximizer = Maximizer::MultiStart(fedbo_optim::MultiStart::for_dim(dim));
            let mut fts = fts_with(
                unit_box(dim),
                settings,
                NEVER_OWN,
                AgentSampling::Uniform,
                MESSAGE,
                map.clone(),
            );
            fts.receive(3, map.hash(), &weights).unwrap();
            let proposal = fts.ask_alone(&mut test_stream(7)).unwrap();
            assert_eq!(proposal.source, Source::Message { sender: 3 });
            let function = WeightSpaceSample::new(&map, &weights).unwrap();
            let found = function.values(&Points::from_rows(dim, [&proposal.unit]))[0];
            let values = function.values(&grid);
            let best = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let worst = values.iter().copied().fold(f64::INFINITY, f64::min);
            assert!(found >= best - 1e-9, "d = {dim}, draw {draw}: {found} < {best}");
            assert!(worst < best - 0.5); // so that this test can fail
        }
    }
    let fts = with_messages(small_fts(NEVER_OWN, AgentSampling::Uniform), [2]);
    let points = Points::from_flat(1, (0..16).map(|i| f64::from(i) / 15.0).collect());
    let function = WeightSpaceSample::new(fts.map(), fts.inbox().get(2).unwrap()).unwrap();
    let values = function.values(&points);
    let best = (0..16).max_by(|a, b| values[*a].total_cmp(&values[*b])).unwrap();
    assert_eq!(fts.ask_alone(&mut test_stream(0)).unwrap().unit, points.row(best));
}

/// Line 3: with p_t = 1, no stream uses a message. With p_t = 0, every stream uses one.
#[test]
fn the_ends_of_p_t_are_sharp() {
    for (p, n_own) in [(1.0, 1000.0), (0.0, 0.0)] {
        let fts = small_fts(LocalProb::Constant(p), AgentSampling::Uniform);
        let counts = tally(&with_messages(fts, 0..3), &[0, 1, 2], 1000);
        assert!((counts[3] - n_own).abs() < 0.5, "{counts:?}");
    }
}

/// Line 3: over 4000 streams, the fraction of the agent's own proposals in step t is within 5
/// binomial standard errors of p_t, where t counts the steps passed to `tell` since the initial
/// points, including failed ones. It differs from p_{t+1} by more than this tolerance.
#[test]
fn own_proposals_have_frequency_p_t() {
    let n = 4000.0_f64;
    let schedule = LocalProb::List(vec![0.2, 0.5, 0.8, 0.95]);
    let mut fts = small_fts(schedule.clone(), AgentSampling::Uniform);
    fts.tell(&initial(&[0.0, 0.4], |x| x)).unwrap();
    let mut fts = with_messages(fts, 0..3);
    for step in 1..=3 {
        let share = tally(&fts, &[0, 1, 2], 4000)[3] / n;
        let off = |p: f64| (share - p).abs() / (p * (1.0 - p) / n).sqrt();
        assert!(off(schedule.at(step)) < 5.0, "{share} in step {step}");
        assert!(off(schedule.at(step + 1)) > 5.0);
        let value = (step != 2).then_some(0.3);
        fts.tell(&[observed(&[0.2], value, Source::Own)]).unwrap();
    }
}

/// Line 6: senders follow P_N, uniform or given, restricted to the available messages and
/// renormalized (chi-squared test over 6000 streams at level 1e-4). The counts for one distribution
/// fail the test for the other.
#[test]
fn senders_follow_p_n() {
    let senders = [1, 2, 4, 7];
    let given = AgentSampling::Given(vec![9.0, 1.0, 2.0, 9.0, 5.0]); // agent 7 is beyond the list
    let uniform_law = [0.25, 0.25, 0.25, 0.25, 0.0];
    let given_law = [0.125, 0.25, 0.625, 0.0, 0.0];
    for (sampling, law, other) in
        [(AgentSampling::Uniform, uniform_law, given_law), (given, given_law, uniform_law)]
    {
        let fts = with_messages(small_fts(NEVER_OWN, sampling), senders);
        let counts = tally(&fts, &senders, 6000);
        follows(&counts, &law).unwrap();
        assert!(follows(&counts, &other).is_err());
    }
}

/// Section 3.1: a used message is removed when its trial is passed to `tell`, failed or not, and
/// P_N is renormalized. If no message is left, the agent's own posterior is sampled. A new message
/// restores its sender.
#[test]
fn used_messages_are_removed_and_fresh_ones_restore_their_sender() {
    let sampling = AgentSampling::Given(vec![0.2, 0.3, 0.5]);
    let mut fts = with_messages(small_fts(NEVER_OWN, sampling), 0..3);
    let senders = [0, 1, 2];
    follows(&tally(&fts, &senders, 3000), &[0.2, 0.3, 0.5, 0.0]).unwrap();
    let used = |sender| Source::Message { sender };
    fts.tell(&[observed(&[0.2], Some(1.0), used(2))]).unwrap();
    follows(&tally(&fts, &senders, 3000), &[0.4, 0.6, 0.0, 0.0]).unwrap();
    fts.tell(&[observed(&[0.4], None, used(1))]).unwrap();
    assert!(tally(&fts, &senders, 300)[0] > 299.5);
    fts.tell(&[observed(&[0.6], Some(1.0), Source::RandomInstead { sender: 0 })]).unwrap();
    assert!(fts.inbox().is_empty() && tally(&fts, &senders, 300)[3] > 299.5);
    let mut fts = with_messages(fts, [1]);
    assert!(tally(&fts, &senders, 300)[1] > 299.5);
    fts.tell(&[observed(&[0.8], Some(1.0), Source::Own)]).unwrap();
    assert_eq!(fts.inbox().len(), 1); // its own query uses no message
}

/// Section 3.1: an agent without a message, or one that has become a straggler, has probability 0.
#[test]
fn stragglers_are_never_chosen() {
    let mut fts = with_messages(small_fts(NEVER_OWN, AgentSampling::Uniform), 0..3);
    assert!(tally(&fts, &[0, 1, 2], 500)[1] > 0.0);
    fts.forget(1);
    fts.forget(77); // unknown sender
    follows(&tally(&fts, &[0, 1, 2], 2000), &[0.5, 0.0, 0.5, 0.0]).unwrap();
}

/// Without messages, or if all available messages have probability 0, p_t = 0 falls back to the
/// agent's own posterior.
#[test]
fn an_empty_inbox_falls_back_to_the_own_posterior() {
    let fts = small_fts(NEVER_OWN, AgentSampling::Uniform);
    assert_eq!(fts.ask_alone(&mut test_stream(1)).unwrap().source, Source::Own);
    let only_first = small_fts(NEVER_OWN, AgentSampling::Given(vec![1.0]));
    let fts = with_messages(only_first, 1..3);
    assert_eq!(fts.ask_alone(&mut test_stream(1)).unwrap().source, Source::Own);
}

/// A message with the hash of a different map, a wrong length or a number that is not finite is
/// refused, and the error names its sender. The inbox keeps the older message.
#[test]
fn defective_messages_are_refused_and_change_nothing() {
    let mut fts = with_messages(small_fts(NEVER_OWN, AgentSampling::Uniform), [4]);
    let hash = fts.map().hash();
    let kept = fts.inbox().get(4).unwrap().to_vec();
    let mut bad = vec![1.0; 16];
    bad[5] = f64::NAN;
    let mut infinite = vec![1.0; 16];
    infinite[0] = f64::NEG_INFINITY;
    let cases = [
        (MapHash([1; 32]), vec![1.0; 16]),
        (hash, vec![1.0; 15]),
        (hash, vec![1.0; 17]),
        (hash, Vec::new()),
        (hash, bad),
        (hash, infinite),
    ];
    for (map, weights) in cases {
        let rejected = fts.receive(4, map, &weights).unwrap_err();
        assert!(rejected.to_string().starts_with("agent 4:"), "{rejected}");
        let (MessageRejected::WrongLength { sender, .. }
        | MessageRejected::WrongMap { sender, .. }
        | MessageRejected::NotFinite { sender, .. }
        | MessageRejected::Implausible { sender, .. }) = rejected;
        assert_eq!(sender, 4);
        assert_eq!(fts.inbox().len(), 1);
        assert_eq!(fts.inbox().get(4), Some(kept.as_slice()));
    }
}

/// A message counts as used even if its maximizer was evaluated before and a random point replaces
/// it (section 3.1 removes sampled messages). Otherwise, it would be drawn forever.
#[test]
fn a_message_replaced_by_a_random_point_counts_as_used() {
    let mut settings = own(1);
    settings.maximizer = Maximizer::Direct(Direct { max_evaluations: 200, ..Direct::default() });
    settings.repeats = Repeats::Randomize;
    let fts =
        fts_with(unit_box(1), settings, NEVER_OWN, AgentSampling::Uniform, MESSAGE, map(1, 16));
    let mut fts = with_messages(fts, [6]);
    let first = fts.ask_alone(&mut test_stream(0)).unwrap();
    assert_eq!(first.source, Source::Message { sender: 6 });
    fts.tell(&[observed(&first.unit, Some(1.0), Source::Initial)]).unwrap();
    let second = fts.ask_alone(&mut test_stream(0)).unwrap();
    assert_eq!(second.source, Source::RandomInstead { sender: 6 });
    assert_eq!(second.source.to_string(), "random");
    fts.tell(&[observed(&second.unit, Some(1.0), second.source)]).unwrap();
    assert!(fts.inbox().is_empty());
}

/// A finite message cannot stop its receiver, however large or small its weights are. c ω gives the
/// same proposal as ω.
#[test]
fn the_scale_of_a_message_does_not_matter() {
    let points = count(16);
    for sampling in [AgentSampling::Uniform, AgentSampling::Learned { sharpness: 2.0 }] {
        let mut fts = fts_with(line(16), own(1), NEVER_OWN, sampling, MESSAGE, map(1, 16));
        fts.tell(&initial(&[0.0, 3.0 / (points - 1.0), 1.0], f64::sin)).unwrap();
        let hash = fts.map().hash();
        let mut weights = test_stream(3).normals(16);
        let largest = weights.iter().fold(0.0_f64, |m, w| m.max(w.abs()));
        weights.iter_mut().for_each(|w| *w /= largest);
        fts.receive(0, hash, &weights).unwrap();
        let expected = fts.ask_alone(&mut test_stream(1)).unwrap();
        for scale in [f64::MAX, 1e200, 1e-200, 1e-300] {
            let scaled: Vec<f64> = weights.iter().map(|w| w * scale).collect();
            fts.receive(0, hash, &scaled).unwrap();
            assert_eq!(fts.ask_alone(&mut test_stream(1)).unwrap(), expected, "{scale:e}");
        }
        for degenerate in [vec![0.0; 16], vec![5e-324; 16], vec![f64::MAX; 16]] {
            fts.receive(0, hash, &degenerate).unwrap();
            fts.ask_alone(&mut test_stream(1)).unwrap();
        }
    }
}

/// `ask` only reads state. Equal streams give equal proposals, whether from the agent's own model
/// or from a message, and different streams give different ones.
#[test]
fn equal_streams_give_equal_proposals() {
    let fts = fts_with(
        unit_box(2),
        own(2),
        LocalProb::Constant(0.5),
        AgentSampling::Uniform,
        MESSAGE,
        map(2, 16),
    );
    let fts = with_messages(fts, 0..3);
    let ask = |n| fts.ask_alone(&mut test_stream(n)).unwrap();
    let first: Vec<_> = (0..20).map(ask).collect();
    assert_eq!(first, (0..20).map(ask).collect::<Vec<_>>());
    assert!(first.iter().any(|p| p.source == Source::Own));
    assert!(first.iter().any(|p| p.source != Source::Own));
    let own: Vec<_> = first.iter().filter(|p| p.source == Source::Own).collect();
    assert!(own.windows(2).all(|pair| pair[0].unit != pair[1].unit));
}

/// Tests line 4 with the log expected improvement instead of a sample. With p_t = 1, the queries
/// equal those of `log-ei` after the draw for p_t. With p_t = 0, messages are used as usual, and if
/// none is left, the agent's own query follows the same rule.
#[test]
fn own_queries_may_be_those_of_log_expected_improvement() {
    let mut settings = LogEiSettings::for_study(2, false);
    (settings.surrogate, settings.maximizer) = (own(2).surrogate, own(2).maximizer);
    let mut log_ei = LogEi::new(unit_box(2), settings.clone(), Seed::new(SEED)).unwrap();
    let own = ThompsonSettings::of_log_ei(&settings);
    let agent = |p| {
        let p_t = LocalProb::Constant(p);
        let sampling = AgentSampling::Uniform;
        fts_with(unit_box(2), own.clone(), p_t, sampling, MESSAGE, map(2, 16))
    };
    let mut fts = with_messages(agent(1.0), 0..3);
    let mut never_own = agent(0.0);
    for step in 0..6 {
        let mut after_the_draw = test_stream(step);
        after_the_draw.bernoulli(1.0);
        let expected = log_ei.ask(&Points::new(2), &mut after_the_draw).unwrap();
        assert_eq!(fts.ask_alone(&mut test_stream(step)).unwrap(), expected);
        assert_eq!(never_own.ask_alone(&mut test_stream(step)).unwrap(), expected);
        let told = [observed(&expected.unit, Some((9.0 * expected.unit[0]).sin()), Source::Own)];
        log_ei.tell(&told).unwrap();
        fts.tell(&told).unwrap();
        never_own.tell(&told).unwrap();
    }
    assert_eq!(fts.inbox().len(), 3);
    let never_own = with_messages(never_own, 0..1);
    let used = never_own.ask_alone(&mut test_stream(0)).unwrap().source;
    assert_eq!(used, Source::Message { sender: 0 });
}
