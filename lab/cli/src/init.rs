//! `nandlab init`: writes the experiments and samples that the README's commands use.

use std::path::{Path, PathBuf};

use crate::Outcome;
use crate::error::CliError;
use crate::output::{self, Overwrite};

/// Path and contents of each file of `experiments/` and `samples/`, which the build script lists.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/starter.rs"));

/// Arguments of `nandlab init`.
#[derive(clap::Args)]
pub struct Args {
    /// Directory to write to; created if it does not exist
    #[arg(default_value = ".")]
    dir: PathBuf,
}

/// Runs the command. A file that exists stays as it is.
/// Errors: a file or directory that cannot be written.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let overwrite = Overwrite::default();
    let (mut written, mut kept) = (0, 0);
    for (name, contents) in FILES {
        let target = args.dir.join(name);
        if target.symlink_metadata().is_ok() {
            kept += 1;
            continue;
        }
        output::make_dir(target.parent().unwrap_or(Path::new("")))?;
        output::write(&target, contents, &overwrite)?;
        written += 1;
    }
    let dir = args.dir.display();
    let mut text = format!("{} written to {dir}, in experiments/ and samples/\n", files(written));
    if kept > 0 {
        text += &format!("{} already there and kept as it was\n", files(kept));
    }
    let step_in = if args.dir == Path::new(".") { String::new() } else { format!("cd {dir} && ") };
    text += &format!("try: {step_in}nandlab run experiments/hello.toml --out out/hello\n");
    output::print(&text)?;
    Ok(Outcome::Done)
}

fn files(number: usize) -> String {
    format!("{number} file{}", if number == 1 { "" } else { "s" })
}
