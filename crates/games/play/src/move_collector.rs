//! Moves that are not decided here: programs are run, and moves that somebody tells are waited for.

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

/// Time between two looks for a move that somebody may have told.
const LOOK: Duration = Duration::from_millis(200);

/// Asks players for their moves in the round after the course so far. A move is durable before it counts.
pub(crate) struct MoveCollector<'a> {
    pub(crate) course: &'a GameHistory,
    pub(crate) record: &'a GameRecord,
    pub(crate) watcher: &'a dyn GameObserver,
    pub(crate) stop: &'a Arc<AtomicBool>,
}

impl MoveCollector<'_> {
    /// The move of a player that does not reason here: one that stands already, or one that it gives now. `Ok(None)` if the game is
    /// to stop, an inner error if no move came.
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

    /// Runs a player's program for its move.
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

    /// Waits for a move to be told, here or by another process.
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
                    // Another process may have told one in this moment, which stays.
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
