//! Moves from outside: runs programs and waits for submitted moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fedbo_objective::Program;
use fedbo_space::{Parameter, Point};

use crate::payoffs::{action, shown};
use crate::{
    GameHistory, GameObserver, GameRecord, MissingActionReason, MoveSource, PlayError, ToldMove,
};

/// Polling interval for a submitted move.
const LOOK: Duration = Duration::from_millis(200);

/// Collects the players' moves for the next round. A move must be durable before it counts.
pub(crate) struct MoveCollector<'a> {
    pub(crate) course: &'a GameHistory,
    pub(crate) record: &'a GameRecord,
    pub(crate) watcher: &'a dyn GameObserver,
    pub(crate) stop: &'a Arc<AtomicBool>,
}

impl MoveCollector<'_> {
    /// Returns the move of a player that does not reason in this process: the stored move, or a new
    /// one. Returns `Ok(None)` if the game was asked to stop, and an inner error if the move is
    /// missing.
    pub(crate) fn ask(
        &self,
        player: usize,
        mover: &MoveSource,
    ) -> Result<Result<Option<ToldMove>, MissingActionReason>, PlayError> {
        let index = self.course.rounds().len();
        if let Some(told) = self.record.told(index, player)? {
            return Ok(Ok(Some(told)));
        }
        match mover {
            MoveSource::Reasoning => unreachable!("its mind has decided"),
            MoveSource::Program { command, .. } => {
                let program = Program::new(command, &[], Arc::clone(self.stop))?;
                let point = match self.run(player, &program) {
                    Ok(Some(point)) => point,
                    Ok(None) => return Ok(Ok(None)),
                    Err(cause) => return Ok(Err(cause)),
                };
                let substitute = None;
                let kept = self.record.keep(index, player, ToldMove { point, substitute })?;
                Ok(Ok(Some(kept)))
            }
            MoveSource::ByHand { timeout, .. } => self.wait(player, *timeout),
        }
    }

    /// Runs a player's program to obtain its move.
    fn run(&self, player: usize, program: &Program) -> Result<Option<Point>, MissingActionReason> {
        let state = self.course.state(player).to_string();
        let environment = [
            ("FEDBO_PLAYER", self.course.definition().players[player].name.clone()),
            ("FEDBO_ROUND", (self.course.rounds().len() + 1).to_string()),
        ];
        let Some(printed) = program.print(|_| None, &environment, Some(&state))? else {
            return Ok(None);
        };
        let own = self.course.actions(player);
        let names: Vec<&str> = own.space().parameters().iter().map(Parameter::name).collect();
        let point = action(&printed, &names)?;
        match self.course.check_move(player, &point) {
            Ok(point) => Ok(Some(point)),
            Err(error) => Err(MissingActionReason::NoAction {
                found: shown(&printed),
                why: error.to_string(),
            }),
        }
    }

    /// Waits for a move submitted by this process or a different one.
    fn wait(
        &self,
        player: usize,
        timeout: Option<Duration>,
    ) -> Result<Result<Option<ToldMove>, MissingActionReason>, PlayError> {
        let index = self.course.rounds().len();
        self.watcher.awaits(index + 1, player);
        let since = Instant::now();
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(Ok(None));
            }
            if let Some(point) = self.watcher.given(player) {
                match self.course.check_move(player, &point) {
                    // If another process submits a move at the same time, the first one is kept.
                    Ok(point) => match self.record.tell(index, player, &point) {
                        Ok(_) => {}
                        Err(why @ PlayError::Move { .. }) => self.watcher.refused(player, &why),
                        Err(error) => return Err(error),
                    },
                    Err(why) => self.watcher.refused(player, &why),
                }
            }
            if let Some(told) = self.record.told(index, player)? {
                return Ok(Ok(Some(told)));
            }
            if let Some(timeout) = timeout.filter(|timeout| since.elapsed() >= *timeout) {
                let seconds = timeout.as_secs_f64();
                return Ok(Err(MissingActionReason::NoMove { seconds }));
            }
            thread::sleep(LOOK);
        }
    }
}
