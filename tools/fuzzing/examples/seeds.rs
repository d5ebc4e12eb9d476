//! Writes the seed inputs of all targets: `cargo run -p fedbo-fuzzing --example seeds -- FOLDER`
//! writes them to `FOLDER/TARGET`.

use std::error::Error;
use std::path::PathBuf;

use fedbo_fuzzing::TARGETS;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.ok_or("usage: seeds FOLDER")?;
    for target in TARGETS {
        let own = folder.join(target.name);
        std::fs::create_dir_all(&own)?;
        for (number, bytes) in (target.seeds)().iter().enumerate() {
            std::fs::write(own.join(format!("seed-{number:02}")), bytes)?;
        }
    }
    Ok(())
}
