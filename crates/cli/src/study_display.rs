//! Progress display of a study's run: a live view on a terminal, plain lines elsewhere.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fedbo_objective::Direction;
use fedbo_storage::{Told, Trial};
use fedbo_study::{Definition, Observer, Study};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use fedbo_console::sparkline::sparkline;
use fedbo_console::text;
use fedbo_console::text::one_line;
use fedbo_console::{self as console, BARS};
use fedbo_documents::trial_record::numbers_in_words;

/// Redraw interval.
const TICK: Duration = Duration::from_millis(200);
/// Maximum width of the curve.
const CURVE_WIDTH: usize = 40;
/// Maximum width of the bar.
const BAR_WIDTH: usize = 24;
/// Number of recent durations from which medians are computed.
const N_TIMES: usize = 101;
/// Number of failures that get a separate line.
const N_FAILURE_LINES: u64 = 10;
/// Maximum burst of lines about ordinary trials. After a burst, the rate is limited to one line per
/// second.
const N_BURST: f64 = 20.0;
/// Minimum interval between reads of trials from other processes.
const REFRESH: Duration = Duration::from_secs(2);
/// Minimum interval between messages about waiting.
const WAITING: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Live,
    Lines,
    Nothing,
}

/// Shows the progress of a run on standard error.
pub(crate) struct StudyDisplay<'a> {
    study: &'a Study,
    mode: Mode,
    view: Arc<Mutex<View>>,
    bar: Option<ProgressBar>,
    unstored: Mutex<Vec<(u64, Told)>>,
}

impl<'a> StudyDisplay<'a> {
    /// Starts the display of a run. `trials` are the existing trials of the study.
    pub(crate) fn new(study: &'a Study, n_wanted: u64, trials: &[Trial]) -> Self {
        let mode = match (console::is_quiet(), std::io::stderr().is_terminal()) {
            (true, _) => Mode::Nothing,
            (false, true) => Mode::Live,
            (false, false) => Mode::Lines,
        };
        let mut view = View::new(&study.definition().name, study.direction(), n_wanted);
        let early_stopping = &study.definition().early_stopping;
        view.n_epochs = early_stopping.as_ref().map(|spec| spec.epochs);
        if study.definition().outcomes_table().is_some() {
            view.definition = Some(study.definition().clone());
        }
        view.count_new_trials(trials);
        let view = Arc::new(Mutex::new(view));
        let bar = (mode == Mode::Live).then(|| live_bar(&view));
        Self { study, mode, view, bar, unstored: Mutex::default() }
    }

    /// Removes the view from the screen.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
            BARS.remove(bar);
        }
    }

    /// Returns the trials that ended but could not be stored, in ascending order.
    pub(crate) fn unstored(self) -> Vec<(u64, Told)> {
        let unstored = self.unstored.into_inner();
        let mut unstored = unstored.unwrap_or_else(PoisonError::into_inner);
        unstored.sort_by_key(|(number, _)| *number);
        unstored
    }

    /// Locks the view. Do not hold the guard while writing to the screen: drawing acquires the
    /// screen lock first and the view's lock second.
    fn view(&self) -> MutexGuard<'_, View> {
        lock(&self.view)
    }

    /// Reads trials from other processes, at most once per refresh interval.
    fn refresh(&self) {
        if !self.view().refresh_is_due() {
            return;
        }
        let began = Instant::now();
        // The run itself reports storage errors.
        let Ok(trials) = self.study.trials() else {
            return;
        };
        let mut view = self.view();
        view.count_new_trials(&trials);
        // Spend at most about 5 % of the time on refreshing.
        view.next_refresh = Instant::now() + REFRESH.max(20 * began.elapsed());
    }
}

fn lock(view: &Mutex<View>) -> MutexGuard<'_, View> {
    view.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates a bar that redraws the view at each tick.
fn live_bar(view: &Arc<Mutex<View>>) -> ProgressBar {
    let drawn = Arc::clone(view);
    let style = ProgressStyle::with_template("{view}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .with_key("view", move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
            let width = console::stderr_width().unwrap_or(80).saturating_sub(1);
            let lines = lock(&drawn).lines(usize::from(width), Instant::now());
            let _ = out.write_str(&lines.join("\n"));
        });
    let bar = BARS.add(ProgressBar::new_spinner());
    bar.set_style(style);
    bar.enable_steady_tick(TICK);
    bar
}

impl Observer for StudyDisplay<'_> {
    fn started(&self, trial: &Trial) {
        if self.mode == Mode::Nothing {
            return;
        }
        let mut view = self.view();
        view.running.push((trial.number, Instant::now()));
        view.waiting = None;
        if trial.attempts <= 1 {
            remember(&mut view.ask_seconds, trial.ask_seconds);
        }
    }

    fn told(&self, trial: &Trial) -> ControlFlow<()> {
        if self.mode == Mode::Nothing {
            return ControlFlow::Continue(());
        }
        let line = {
            let mut view = self.view();
            let is_best = view.told(trial);
            view.line(trial, is_best, Instant::now(), self.mode == Mode::Live)
        };
        if let Some(line) = line {
            console::note(&line);
        }
        self.refresh();
        ControlFlow::Continue(())
    }

    fn reported(&self, number: u64, epoch: u32) {
        if self.mode == Mode::Live {
            self.view().epochs.insert(number, epoch);
        }
    }

    fn waiting(&self, open: &[Trial]) {
        if self.mode == Mode::Nothing {
            return;
        }
        self.refresh();
        let numbers: Vec<u64> = open.iter().map(|trial| trial.number).collect();
        let what = match numbers.len() {
            1 => "trial",
            _ => "trials",
        };
        let text = format!("{what} {}, evaluated by other processes", text::numbers(&numbers));
        let line = {
            let mut view = self.view();
            view.waiting = Some(text.clone());
            let is_due = view.waiting_reported_at.is_none_or(|at| at.elapsed() > WAITING);
            let speaks = self.mode == Mode::Lines && is_due;
            if speaks {
                view.waiting_reported_at = Some(Instant::now());
            }
            speaks
        };
        if line {
            console::note(&format!("waiting for {text}"));
        }
    }

    fn unstored(&self, number: u64, told: &Told) {
        let unstored = self.unstored.lock();
        let mut unstored = unstored.unwrap_or_else(PoisonError::into_inner);
        unstored.push((number, told.clone()));
    }

    fn warning(&self, message: &str) {
        console::note(&format!("warning: {message}"));
    }
}

/// State of the study and the run.
struct View {
    name: String,
    direction: Direction,
    n_wanted: u64,
    /// Requested number of trials, without retries and enqueued points.
    n_asked_for: u64,
    /// Numbers of the trials that are counted below. Trials may be seen twice, because other
    /// processes finish trials concurrently.
    counted: HashSet<u64>,
    n_complete: u64,
    n_failed: u64,
    n_stopped: u64,
    /// Maximum number of epochs N, if trials are stopped early.
    n_epochs: Option<u32>,
    /// The definition, if trials have several outcomes.
    definition: Option<Definition>,
    best: Option<Best>,
    /// Nondominated feasible trials so far, if there are several objectives.
    front: Vec<Trial>,
    /// Best value after each finished trial, starting with the first value.
    curve: Vec<f64>,
    began: Instant,
    n_told_here: u64,
    running: Vec<(u64, Instant)>,
    /// Latest reported epoch of each running trial, by number.
    epochs: HashMap<u64, u32>,
    ask_seconds: VecDeque<f64>,
    evaluate_seconds: VecDeque<f64>,
    waiting: Option<String>,
    waiting_reported_at: Option<Instant>,
    next_refresh: Instant,
    n_failure_lines: u64,
    /// Number of lines that may be written before the rate limit applies.
    allowance: f64,
    allowed_at: Instant,
}

struct Best {
    number: u64,
    value: f64,
    point: String,
}

impl View {
    fn new(name: &str, direction: Direction, n_wanted: u64) -> Self {
        let now = Instant::now();
        Self {
            name: name.to_owned(),
            direction,
            n_wanted,
            n_asked_for: n_wanted,
            counted: HashSet::new(),
            n_complete: 0,
            n_failed: 0,
            n_stopped: 0,
            n_epochs: None,
            definition: None,
            best: None,
            front: Vec::new(),
            curve: Vec::new(),
            began: now,
            n_told_here: 0,
            running: Vec::new(),
            epochs: HashMap::new(),
            ask_seconds: VecDeque::new(),
            evaluate_seconds: VecDeque::new(),
            waiting: None,
            waiting_reported_at: None,
            next_refresh: now + REFRESH,
            n_failure_lines: 0,
            allowance: N_BURST,
            allowed_at: now,
        }
    }

    /// Counts finished trials that are not counted yet, in the order in which they finished.
    fn count_new_trials(&mut self, trials: &[Trial]) {
        let is_told = |trial: &&Trial| trial.told().is_some() && !trial.is_discarded();
        let mut told: Vec<&Trial> = trials.iter().filter(is_told).collect();
        told.sort_by_key(|trial| trial.told_seq);
        for trial in told {
            self.count(trial);
        }
        // Retries of failed trials and enqueued points are evaluated in addition to the requested
        // number. Discarded trials do not count.
        let kept = || trials.iter().filter(|trial| !trial.is_discarded());
        let retries = kept().filter(|trial| trial.retry_of().is_some());
        let n_all = self.n_asked_for.saturating_add(retries.count() as u64);
        self.n_wanted = n_all.max(kept().count() as u64);
    }

    fn refresh_is_due(&self) -> bool {
        Instant::now() >= self.next_refresh
    }

    /// Counts a finished trial, unless it is already counted.
    fn count(&mut self, trial: &Trial) {
        if !self.counted.insert(trial.number) {
            return;
        }
        match trial.value() {
            None if matches!(trial.told(), Some(Told::Stopped { .. })) => self.n_stopped += 1,
            None if trial.numbers().is_empty() => self.n_failed += 1,
            None => self.n_complete += 1, // without its value
            Some(value) => {
                self.n_complete += 1;
                let definition = self.definition.as_ref();
                if let Some(several) = definition.filter(|each| !each.objectives.is_empty()) {
                    self.front.push(trial.clone());
                    self.front = several.best_trials(&self.front).into_iter().cloned().collect();
                    return;
                }
                let is_feasible = definition.is_none_or(|each| each.is_feasible(trial));
                let best = self.best.as_ref();
                if is_feasible
                    && best.is_none_or(|best| self.direction.is_better(value, best.value))
                {
                    self.best = Some(Best {
                        number: trial.number,
                        value,
                        point: text::point(&trial.point),
                    });
                }
            }
        }
        if let Some(best) = &self.best {
            self.curve.push(best.value);
        }
    }

    /// Records a trial finished by this run. Returns true if it is among the best so far.
    fn told(&mut self, trial: &Trial) -> bool {
        if let Some(at) = self.running.iter().position(|(n, _)| *n == trial.number) {
            let (_, began) = self.running.swap_remove(at);
            remember(&mut self.evaluate_seconds, began.elapsed().as_secs_f64());
        }
        self.epochs.remove(&trial.number);
        self.n_told_here += 1;
        self.count(trial);
        let is_best = self.best.as_ref().is_some_and(|best| best.number == trial.number);
        is_best || self.front.iter().any(|each| each.number == trial.number)
    }

    /// Returns the line about a trial that has just finished, or `None` if the rate limit
    /// suppresses it. In the live view, only failures get a line.
    fn line(&mut self, trial: &Trial, is_best: bool, now: Instant, live: bool) -> Option<String> {
        let number = trial.number;
        let failed = match trial.told() {
            Some(Told::Failed { message, .. }) => {
                self.n_failure_lines += 1;
                if self.n_failure_lines <= N_FAILURE_LINES {
                    let mut line = format!("trial {number} failed: {}", one_line(message));
                    if self.n_failure_lines == N_FAILURE_LINES {
                        line +=
                            "\nfurther failures are only counted; `fedbo trials` shows them all";
                    }
                    return Some(line);
                }
                true
            }
            _ => false,
        };
        if live {
            return None;
        }
        let passed = now.saturating_duration_since(self.allowed_at).as_secs_f64();
        self.allowance = (self.allowance + passed).min(N_BURST);
        self.allowed_at = now;
        let n_told = self.n_told();
        let is_last = n_told >= self.n_wanted;
        if !is_best && !is_last && self.allowance < 1.0 {
            return None;
        }
        self.allowance = (self.allowance - 1.0).max(0.0);
        let what = match (trial.told(), trial.numbers()) {
            (_, [value, ..]) => match &self.definition {
                None => text::number(*value),
                Some(definition) => {
                    let numbers = numbers_in_words(definition, trial.numbers());
                    match definition.is_infeasible(trial) {
                        false => numbers,
                        true => format!("{numbers}, infeasible"),
                    }
                }
            },
            (Some(Told::Stopped { epoch, because, .. }), _) => {
                let of = self.n_epochs.map_or_else(String::new, |n| format!(" of {n}"));
                format!("stopped at epoch {epoch}{of}: {}", one_line(because))
            }
            _ => "failed".to_owned(),
        };
        let mut line = format!("[{n_told}/{}] trial {number}: {what}", self.n_wanted);
        match &self.best {
            _ if is_best => {
                let what = match self.front.is_empty() {
                    true => "the best so far",
                    false => "on the front",
                };
                line += &format!(", {what}, at {}", text::point(&trial.point));
            }
            Some(best) => {
                line += &format!(", best {} (trial {})", text::number(best.value), best.number);
            }
            None if !self.front.is_empty() => {
                line += &format!(", {} on the front", self.front.len());
            }
            None => {}
        }
        if failed || self.n_failed > 0 {
            line += &format!(", {} failed", self.n_failed);
        }
        Some(line)
    }

    /// Returns the lines of the live view, each with at most `width` characters.
    fn lines(&self, width: usize, now: Instant) -> Vec<String> {
        let mut lines = vec![self.bar(width, now)];
        match &self.best {
            Some(best) => {
                let value = text::number(best.value);
                lines.push(format!("  best   {value} (trial {})  {}", best.number, best.point));
                let room = width.saturating_sub(9).min(CURVE_WIDTH);
                let curve = sparkline(&self.curve, self.direction, room);
                let first = self.curve.first().copied().unwrap_or(best.value);
                lines.push(format!("  curve  {curve}  {} → {value}", text::number(first)));
            }
            None if !self.front.is_empty() => {
                let n = text::counted(self.front.len() as u64, "trial");
                lines.push(format!("  front  {n}"));
            }
            None if self.n_complete > 0 => lines.push("  best   no feasible trial yet".to_owned()),
            None => lines.push("  best   no value yet".to_owned()),
        }
        if let Some(times) = self.times() {
            lines.push(format!("  times  {times}"));
        }
        lines.push(match (&self.waiting, self.running.is_empty()) {
            (Some(waiting), true) => format!("  waits  for {waiting}"),
            (_, true) => "  now    choosing the next trial".to_owned(),
            _ => format!("  now    {}", self.evaluating(now)),
        });
        for line in &mut lines {
            *line = text::shown(line).into_owned();
            truncate(line, width);
        }
        lines
    }

    /// Formats `name ━━━━╸ 37/60 trials, 2 failed 0:12, about 0:08 left`. A narrow terminal gets
    /// only the counts and times.
    fn bar(&self, width: usize, now: Instant) -> String {
        let n_told = self.n_told();
        let mut counts = format!("{n_told}/{} trials", self.n_wanted);
        if self.n_stopped > 0 {
            let _ = write!(counts, ", {} stopped", self.n_stopped);
        }
        if self.n_failed > 0 {
            let _ = write!(counts, ", {} failed", self.n_failed);
        }
        let elapsed = now.saturating_duration_since(self.began).as_secs_f64();
        let mut clock = text::clock(elapsed);
        if let Some(left) = self.seconds_left(elapsed, n_told) {
            let _ = write!(clock, ", about {} left", text::clock(left));
        }
        let name: String = self.name.chars().take(20).collect();
        let used = name.chars().count() + counts.chars().count() + clock.chars().count() + 6;
        let n_cells = width.saturating_sub(used).min(BAR_WIDTH);
        if n_cells < 4 {
            return format!("{counts}  {clock}");
        }
        format!("{name}  {}  {counts}  {clock}", cells(n_told, self.n_wanted, n_cells))
    }

    fn n_told(&self) -> u64 {
        self.n_complete + self.n_failed + self.n_stopped
    }

    fn seconds_left(&self, elapsed: f64, n_told: u64) -> Option<f64> {
        let left = self.n_wanted.saturating_sub(n_told);
        #[expect(clippy::cast_precision_loss, reason = "numbers of trials are small")]
        let (here, left) = (self.n_told_here as f64, left as f64);
        (here >= 3.0 && left > 0.0).then_some(elapsed / here * left)
    }

    /// Formats the median durations of an evaluation and an ask.
    fn times(&self) -> Option<String> {
        let evaluate = median(&self.evaluate_seconds)?;
        let mut times = format!("{} an evaluation", text::duration(evaluate));
        if let Some(ask) = median(&self.ask_seconds) {
            times = format!("{} an ask, {times} (medians)", text::duration(ask));
        }
        Some(times)
    }

    /// Formats `trial 37 (12 s), 38 (3 s)`, the longest-running first.
    fn evaluating(&self, now: Instant) -> String {
        let mut running = self.running.clone();
        running.sort_by_key(|(_, began)| *began);
        let each = running.iter().map(|(number, began)| {
            let seconds = now.saturating_duration_since(*began).as_secs();
            #[expect(clippy::cast_precision_loss, reason = "seconds of a run")]
            let time = match seconds {
                0 => None,
                1..60 => Some(format!("{seconds} s")),
                _ => Some(text::clock(seconds as f64)),
            };
            let epoch = self.epochs.get(number).map(|epoch| match self.n_epochs {
                Some(n_epochs) => format!("epoch {epoch} of {n_epochs}"),
                None => format!("epoch {epoch}"),
            });
            let notes: Vec<String> = time.into_iter().chain(epoch).collect();
            match notes.is_empty() {
                true => number.to_string(),
                false => format!("{number} ({})", notes.join(", ")),
            }
        });
        let what = match running.len() {
            1 => "trial",
            _ => "trials",
        };
        format!("{what} {}", each.collect::<Vec<_>>().join(", "))
    }
}

/// Draws a bar of `n_cells` cells, filled to `done / all` in steps of half a cell.
fn cells(done: u64, all: u64, n_cells: usize) -> String {
    let halves = 2 * n_cells as u64;
    let n_full = match done.min(all).checked_mul(halves) {
        Some(product) if all > 0 => product / all,
        _ => halves,
    };
    let n_full = usize::try_from(n_full).unwrap_or(2 * n_cells);
    let mut text = "━".repeat(n_full / 2);
    if n_full % 2 == 1 {
        text.push('╸');
    }
    text + &" ".repeat(n_cells - n_full.div_ceil(2))
}

fn truncate(line: &mut String, width: usize) {
    if line.chars().count() > width {
        let kept: String = line.chars().take(width.saturating_sub(1)).collect();
        *line = kept + "…";
    }
}

fn remember(times: &mut VecDeque<f64>, seconds: f64) {
    if times.len() == N_TIMES {
        times.pop_front();
    }
    times.push_back(seconds);
}

fn median(times: &VecDeque<f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = times.iter().copied().collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use fedbo_space::{Point, Value};
    use fedbo_storage::TrialState;

    use super::*;

    fn trial(number: u64, told: Told) -> Trial {
        Trial {
            number,
            point: Point::new(vec![("x".to_owned(), Value::Float(0.25))]),
            source: "own".to_owned(),
            state: TrialState::Told(told),
            attempts: 1,
            asked_at_ms: 0,
            started_at_ms: Some(0),
            told_at_ms: Some(1),
            told_seq: None,
            ask_seconds: 0.01,
            reports: Vec::new(),
        }
    }

    fn failed() -> Told {
        Told::Failed { kind: "exit".to_owned(), message: "exit status 3".to_owned() }
    }

    fn view() -> View {
        let mut view = View::new("branin", Direction::Minimize, 60);
        view.running.push((0, view.began));
        view.told(&trial(0, Told::Value(12.5)));
        view.told(&trial(1, failed()));
        view.told(&trial(2, Told::Value(0.5)));
        view.told(&trial(3, Told::Value(4.0)));
        view.running.push((4, view.began));
        view
    }

    #[test]
    fn the_view_says_what_a_person_wants_to_know() {
        let view = view();
        let lines = view.lines(79, view.began + Duration::from_secs(20));
        assert_eq!(
            lines[0],
            "branin  ━╸                        4/60 trials, 1 failed  0:20, about 4:40 left"
        );
        assert_eq!(lines[1], "  best   0.5 (trial 2)  x=0.25");
        assert_eq!(lines[2], "  curve  ██▁▁  12.5 → 0.5");
        assert!(lines[3].starts_with("  times  ") && lines[3].ends_with(" an evaluation"));
        assert_eq!(lines[4], "  now    trial 4 (20 s)");
    }

    #[test]
    fn trials_that_are_stopped_are_no_failures() {
        let mut view = view();
        view.n_epochs = Some(50);
        let stopped = trial(
            4,
            Told::Stopped {
                epoch: 12,
                value: 0.1,
                because: "worse than the median 4 of 3 trials".to_owned(),
            },
        );
        let is_best = view.told(&stopped);
        assert!(!is_best, "its value is not final");
        let line = view.line(&stopped, is_best, view.began, false);
        assert_eq!(
            line.as_deref(),
            Some(
                "[5/60] trial 4: stopped at epoch 12 of 50: worse than the median 4 of 3 trials, best 0.5 (trial 2), 1 failed"
            )
        );
        view.running.push((5, view.began));
        view.epochs.insert(5, 7);
        let lines = view.lines(100, view.began + Duration::from_secs(3));
        assert_eq!(lines[4], "  now    trial 5 (3 s, epoch 7 of 50)");
        assert!(lines[0].contains("5/60 trials, 1 stopped, 1 failed"), "{}", lines[0]);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let mut view = view();
        for width in [0, 1, 7, 20, 33, 40, 79, 200] {
            for waiting in [None, Some("trial 3 of another process".to_owned())] {
                view.waiting = waiting;
                for line in view.lines(width, Instant::now()) {
                    assert!(line.chars().count() <= width.max(1), "{width}: {line}");
                }
            }
        }
    }

    #[test]
    fn lines_are_few_where_trials_are_quick() {
        let mut view = View::new("quick", Direction::Maximize, 10_000);
        let mut n_lines = 0;
        let began = view.began;
        for number in 0..10_000 {
            let told = trial(number, Told::Value(-1.0));
            let is_best = view.told(&told);
            let now = began + Duration::from_millis(number);
            n_lines += usize::from(view.line(&told, is_best, now, false).is_some());
        }
        assert!((25..=36).contains(&n_lines), "{n_lines}");
        let last = view.line(&trial(9_999, Told::Value(-1.0)), false, began, false);
        assert!(last.is_some(), "the last one always has its line");
        // Each slow trial gets a line, and a new best always gets one.
        let later = began + Duration::from_secs(60);
        for seconds in 0..60 {
            let told = trial(1, Told::Value(-2.0));
            let now = later + Duration::from_secs(seconds);
            assert!(view.line(&told, false, now, false).is_some());
        }
        let best = view.line(&trial(7, Told::Value(3.0)), true, later, false);
        assert!(best.is_some_and(|line| line.contains("trial 7: 3, the best so far, at x=0.25")));
    }

    #[test]
    fn the_first_failures_are_told_with_their_reasons() {
        let mut view = View::new("broken", Direction::Maximize, 100);
        let mut number = 0;
        let mut told = |live| {
            number += 1;
            let trial = trial(number, failed());
            view.told(&trial);
            view.line(&trial, false, Instant::now(), live)
        };
        for number in 1..N_FAILURE_LINES {
            let expected = format!("trial {number} failed: exit status 3");
            assert_eq!(told(true), Some(expected));
        }
        assert!(told(true).is_some_and(|line| line.contains("only counted")));
        assert_eq!(told(true), None);
        assert_eq!(told(false).as_deref(), Some("[12/100] trial 12: failed, 12 failed"));
    }
}
