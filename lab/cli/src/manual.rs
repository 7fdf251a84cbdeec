//! `nandlab completions` and `nandlab man`: made of the definitions that the parser uses.

use std::path::PathBuf;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::error::CliError;
use crate::output::{self, Overwrite};
use crate::{Cli, Outcome};

/// Arguments of `nandlab completions`.
#[derive(clap::Args)]
pub struct CompletionsArgs {
    /// The shell; for bash: `source <(nandlab completions bash)`
    shell: Shell,
}

/// Arguments of `nandlab man`.
#[derive(clap::Args)]
pub struct ManArgs {
    /// Page of this command, as in `nandlab man trace replay | man -l -` [default: of nandlab itself]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Write the pages of all commands to this directory
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    out: Option<PathBuf>,
    /// Overwrite the pages that exist
    #[arg(long, requires = "out")]
    force: bool,
}

/// Prints completions. Errors: standard output cannot be written.
pub fn completions(args: &CompletionsArgs) -> Result<Outcome, CliError> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "nandlab", &mut text);
    output::print(&String::from_utf8_lossy(&text))?;
    Ok(Outcome::Done)
}

/// The name of a command's page, and the page.
type Page = (String, Vec<u8>);

/// The pages of a command and of all below it. `above` is the name of the command that it is in.
fn pages(command: &clap::Command, above: &str, into: &mut Vec<Page>) {
    let name = if above.is_empty() { command.get_name().to_owned() } else { format!("{above}-{}", command.get_name()) };
    let mut page = Vec::new();
    let written = Man::new(command.clone()).title(name.clone()).render(&mut page);
    written.expect("memory takes it");
    into.push((name.clone(), page));
    command.get_subcommands().filter(|inner| inner.get_name() != "help").for_each(|inner| pages(inner, &name, into));
}

/// Prints a manual page, or writes all of them.
/// Errors: an unknown command; a page that cannot be written.
pub fn man(args: &ManArgs) -> Result<Outcome, CliError> {
    let mut command = Cli::command();
    command.build();
    let mut all = Vec::new();
    pages(&command, "", &mut all);
    if let Some(dir) = &args.out {
        let overwrite = Overwrite::new(args.force, []);
        let file = |name: &str| dir.join(format!("{name}.1"));
        all.iter().try_for_each(|(name, _)| overwrite.permit(&file(name)))?;
        output::make_dir(dir)?;
        all.iter().try_for_each(|(name, page)| output::write(&file(name), page, &overwrite))?;
        output::print(&format!(
            "{} pages in {}; read one with `man {}`\n",
            all.len(),
            dir.display(),
            file("nandlab").display()
        ))?;
        return Ok(Outcome::Done);
    }
    let wanted =
        std::iter::once("nandlab").chain(args.command.iter().map(String::as_str)).collect::<Vec<_>>().join("-");
    let Some((_, page)) = all.iter().find(|(name, _)| *name == wanted) else {
        let names = all.iter().map(|(name, _)| name.trim_start_matches("nandlab").replace('-', " ").trim().to_owned());
        let names = names.filter(|name| !name.is_empty()).collect::<Vec<_>>().join(", ");
        let what = format!("found no command `{}`, expected one of: {names}", args.command.join(" "));
        return Err(CliError::Input {
            file: "nandlab man".to_owned(),
            what,
            help: "name a command, or none".to_owned(),
        });
    };
    output::print(&String::from_utf8_lossy(page))?;
    Ok(Outcome::Done)
}
