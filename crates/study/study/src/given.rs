//! Asking for a trial in which some parameters have given values.

use std::ops::ControlFlow;
use std::time::Duration;

use fedbo_space::{Point, Space};
use fedbo_storage::{Trial, Worker};

use crate::{AskOutcome, Study, StudyError};

impl Study {
    /// Asks for a trial that has exactly the values of `given`, a point that need not contain all
    /// parameters. The model chooses the other values. The trial is leased as by [`Study::ask`].
    ///
    /// Use it for a quantity that is observed and not chosen, or to fix a parameter for one trial.
    /// The trial is always a new proposal: waiting trials continue to wait.
    ///
    /// ```
    /// use fedbo_space::{ParameterSpec, Point};
    /// use fedbo_study::{Definition, Study};
    ///
    /// let definition = Definition::new("drying")
    ///     .parameter("heat", ParameterSpec::float(0.0, 100.0))
    ///     .parameter("humidity", ParameterSpec::float(0.0, 100.0))
    ///     .minimize();
    /// let study = Study::in_memory(&definition)?;
    /// let given = Point::new(vec![("humidity".into(), 40.into())]);
    /// let trial = study.ask_given(&given)?;
    /// assert_eq!(trial.point.number("humidity"), 40.0);
    /// # Ok::<(), fedbo_study::StudyError>(())
    /// ```
    ///
    /// # Errors
    /// Same as [`Study::ask`]. Also fails if a given value does not fit the space
    /// ([`Space::with_given`]), or the strategy cannot propose with given values.
    pub fn ask_given(&self, given: &Point) -> Result<Trial, StudyError> {
        match self.ask_given_as(&Worker::by_hand(), None, None, given)? {
            AskOutcome::Trial(trial) => Ok(trial),
            AskOutcome::Full { .. } => unreachable!("a study without a limit is never full"),
        }
    }

    /// Asks for a trial with given values for `worker`. `lease` and `limit` are those of
    /// [`Study::ask_as`].
    ///
    /// # Errors
    /// Same as [`Study::ask_given`].
    pub fn ask_given_as(
        &self,
        worker: &Worker,
        lease: Option<Duration>,
        limit: Option<u64>,
        given: &Point,
    ) -> Result<AskOutcome, StudyError> {
        let part = self.space().with_given(given)?;
        let part: Option<&Space> = part.has_given().then_some(&part);
        match self.ask_in(part, worker, lease, limit, None, &|| true)? {
            ControlFlow::Continue(asked) => Ok(asked),
            ControlFlow::Break(_) => {
                unreachable!("a stop does not apply to a caller outside a run")
            }
        }
    }
}
