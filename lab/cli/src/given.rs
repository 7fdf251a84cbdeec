//! Keys that the command line gives: `--set`, `--seed`, and options that stand for a key of the experiment.

use std::path::Path;

use runner::schema::ExperimentError;

use crate::error::CliError;

/// Keys and values that override the experiment's, each with the option that gave it.
#[derive(Clone, Debug, Default)]
pub struct Given {
    pairs: Vec<(String, String)>,
    options: Vec<String>,
}

impl Given {
    /// The keys of `--set` and `--seed`.
    /// Errors: a `--set` without an equals sign.
    pub fn new(sets: &[String], seed: Option<u64>) -> Result<Given, CliError> {
        let mut given = Given::default();
        for set in sets {
            let Some((key, value)) = set.split_once('=') else {
                let what = format!("found `{set}`, expected KEY=VALUE");
                return Err(CliError::input(Path::new("--set"), what, "write it as nand.pebs=4096"));
            };
            given.push(key.trim(), value.trim().to_owned(), format!("--set {set}"));
        }
        if let Some(seed) = seed {
            given.push("seed", seed.to_string(), format!("--seed {seed}"));
        }
        Ok(given)
    }

    /// Adds a key; `option` is how the user gave it.
    pub fn push(&mut self, key: &str, value: String, option: String) {
        self.pairs.push((key.to_owned(), value));
        self.options.push(option);
    }

    /// The keys and values.
    pub fn pairs(&self) -> &[(String, String)] {
        &self.pairs
    }

    /// The option that gave this key last.
    pub fn option_of(&self, key: &str) -> Option<&str> {
        let found = self.pairs.iter().rposition(|(given, _)| given == key);
        found.map(|at| self.options[at].as_str())
    }

    /// The error for an experiment that is refused: it names the option if that gave the key, else the file.
    pub fn refused(&self, file: &Path, error: &ExperimentError) -> CliError {
        let help = match error {
            ExperimentError::Syntax(shown) if shown.contains('\n') => "correct the line shown above",
            ExperimentError::Syntax(_) => "see `nandlab run --help-keys` for what each key takes",
            ExperimentError::UnknownKey { .. } => {
                "correct the key, or remove it; `nandlab run --help-keys` lists all keys"
            }
            ExperimentError::Value { .. } => "change this key, or what it depends on; see `nandlab run --help-keys`",
        };
        let about = match error {
            ExperimentError::UnknownKey { key, .. } | ExperimentError::Value { key, .. } => key.as_str(),
            ExperimentError::Syntax(_) => "",
        };
        // An error may name an item of a list: `ssd.timing.read_us[0]`.
        let is_it = |key: &str| about.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('['));
        let option = self.pairs.iter().rposition(|(key, _)| is_it(key));
        let place = option.map_or(file, |at| Path::new(&self.options[at]));
        CliError::input(place, error.to_string(), help)
    }
}
