//! `database`: SQLite files of agents, coordinators and single-party studies, with forged cells or
//! corrupted bytes.

mod agent;
mod coordinator;
mod study;

use std::path::PathBuf;

use crate::input_reader::Pieces;
use crate::sqlite_file::{change_cells, damage, put};

/// The first byte selects the owner of the file: a study, an agent or a coordinator. Another byte
/// selects whether cells or bytes are changed. The owner then opens the file, reads all of it, and
/// continues from the stored state.
pub fn database(bytes: &[u8]) {
    let mut pieces = Pieces(bytes);
    match pieces.byte() % 3 {
        0 => study::read(pieces),
        1 => agent::read(pieces),
        _ => coordinator::read(pieces),
    }
}

/// A way to change a file.
#[derive(Clone, Copy, Debug)]
enum Change {
    Cells,
    Bytes,
}

impl Change {
    fn of(pieces: &mut Pieces<'_>) -> Self {
        match pieces.byte() & 1 {
            0 => Self::Cells,
            _ => Self::Bytes,
        }
    }

    /// Writes the file with the changes that the input describes. `sees` can transform the new
    /// value of a blob column.
    fn put(
        self,
        name: &str,
        base: &[u8],
        mut pieces: Pieces<'_>,
        sees: impl Fn(&str, Vec<u8>) -> Vec<u8>,
    ) -> PathBuf {
        match self {
            Self::Cells => {
                let path = put(name, base, &[]);
                change_cells(&path, pieces, sees);
                path
            }
            Self::Bytes => {
                let mut bytes = base.to_vec();
                while !pieces.is_empty() {
                    damage(&mut bytes, &mut pieces);
                }
                put(name, &bytes, &[])
            }
        }
    }
}

/// Returns each kind of file unchanged, with a changed cell, and with a changed byte.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for kind in 0..3 {
        for study in 0..2 {
            seeds.push(vec![kind, study, 0]);
            seeds.push(vec![kind, study, 0, 0, 0, 1, 0, 0, 0, 2, 7]);
            seeds.push(vec![kind, study, 0, 1, 0, 3, 0, 0, 0, 4, 3, b'x', b'y', b'z']);
            seeds.push(vec![kind, study, 0, 1, 0, 2, 0, 1, 0, 5, 2, 1, 2]);
            seeds.push(vec![kind, study, 1, 0, 32, 0, 0, 4, 1]);
        }
    }
    seeds
}
