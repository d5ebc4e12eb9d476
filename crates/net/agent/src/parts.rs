//! Parts that agents of other kinds of federations are built of too: the contents of their folder, and their requests.

pub use crate::address::checked_url;
pub use crate::clock::{Backoff, Clock, SystemClock};
pub use crate::database::{Database, fixed};
pub use crate::home::make_folder;
pub use crate::http_client::{Answer, HttpClient, Signer};
pub use crate::identity::Identity;
pub use crate::lock::Lock;
pub use crate::objective_table::ObjectiveTable;
pub use crate::play::{PlayError, Played, play};
pub use crate::trials::{TRIALS_FILE, Trials, look};
