//! `nandlab serve`: a simulated block device for clients in real time.

mod client;
mod nbd;
mod server;
pub mod socket;
mod vhost;

use std::path::PathBuf;

use runner::run::{Live, Prepared};

use self::client::Endpoint;
use self::nbd::NbdEndpoint;
use self::server::Server;
use self::socket::{Address, Listener};
use self::vhost::VhostEndpoint;
use crate::Outcome;
use crate::error::CliError;
use crate::given::Given;
use crate::guest::logs::Paths;
use crate::interrupt::Ending;
use crate::kept::{Kept, sink};
use crate::output::Overwrite;
use crate::parts::PartDirs;
use crate::run::{self, Request, Stopped};
use crate::store;
use crate::watch::Flag;

/// Arguments of `nandlab serve`.
#[derive(clap::Args)]
#[group(id = "endpoints", required = true, multiple = true, args = ["nbd", "vhost_user_blk"])]
pub struct Args {
    /// The experiment, a TOML file: on a drive or a ubiblock. Its load is not run
    file: PathBuf,
    /// Serve NBD, the network block device protocol, at unix:PATH or HOST:PORT
    #[arg(long, value_name = "ADDRESS", value_parser = Address::parse)]
    nbd: Option<Address>,
    /// Serve vhost-user-blk, for QEMU and other front ends, at the Unix socket PATH
    #[arg(long, value_name = "PATH")]
    vhost_user_blk: Option<PathBuf>,
    /// Reply no sooner than the drive would: virtual time follows the clock on the wall [default: reply at once]
    #[arg(long)]
    paced: bool,
    /// End when the last client has gone [default: on Ctrl-C or SIGTERM]
    #[arg(long)]
    once: bool,
    /// Permit an address that other machines can reach: whoever reaches it may read and write
    #[arg(long)]
    anywhere: bool,
    #[command(flatten)]
    watch: Flag,
    /// Override a key of the file, as in `--set ssd.blocks=4096`; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The seed; overrides the file's
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    parts: PartDirs,
    /// Contents of the device at the start, a disk image
    #[arg(long, value_name = "IMAGE")]
    from: Option<PathBuf>,
    /// Keep the drive's contents at the end in this file, a disk image; of a ubiblock the raw flash below it
    #[arg(long, value_name = "FILE")]
    flash: Option<PathBuf>,
    /// Keep the contents at the end in this file, a disk image
    #[arg(long, value_name = "FILE")]
    disk: Option<PathBuf>,
    /// Directory for the results [default: none are written]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Overwrite the files of --out, --flash and --disk that exist; inputs are never overwritten
    #[arg(long)]
    force: bool,
    /// Print the result as one JSON document
    #[arg(long)]
    json: bool,
}

/// Runs the command.
/// Errors: a file that cannot be read or is no experiment on a drive; an address that cannot be used; results that cannot
/// be written.
pub fn run(args: Args) -> Result<Outcome, CliError> {
    let given = Given::new(&args.set, args.seed)?;
    let library = args.parts.library()?;
    let text = run::read(&args.file)?;
    let prepared =
        Prepared::resolve_with(&text, given.pairs(), &library).map_err(|error| given.refused(&args.file, &error))?;
    let Some(facts) = prepared.subject.block() else {
        let help =
            "name an experiment with a table [ssd] or [ubiblock]; Linux mounts raw flash with `nandlab guest shell`";
        return Err(CliError::input(&args.file, "found raw flash, expected a block device", help));
    };
    let mut inputs = args.parts.inputs();
    inputs.push(args.file.clone());
    inputs.extend(args.from.clone());
    let overwrite = Overwrite::new(args.force, inputs.iter().map(PathBuf::as_path));
    if let Some(dir) = &args.out {
        store::prepare_run(dir, &overwrite)?;
    }
    let image =
        args.from.as_ref().map(|path| std::fs::read(path).map_err(|error| CliError::read(path, &error))).transpose()?;
    let mut kept = Kept::create(&prepared.subject, args.flash.as_deref(), args.disk.as_deref(), &overwrite)?;
    let [mut device, mut flash] = kept.filled(&prepared.subject);
    let title = &prepared.experiment.title;
    let mut endpoints: Vec<Box<dyn Endpoint>> = Vec::new();
    if let Some(address) = &args.nbd {
        endpoints.push(Box::new(NbdEndpoint::new(Listener::bind(address, args.anywhere)?, title.clone())));
    }
    if let Some(path) = &args.vhost_user_blk {
        let listener = Listener::bind(&Address::Unix(path.clone()), args.anywhere)?;
        endpoints.push(Box::new(VhostEndpoint::new(listener, title.clone())?));
    }
    let ending = Ending::on_signal().map_err(|error| CliError::read(&args.file, &error))?;
    for endpoint in &endpoints {
        eprintln!("{} bytes on {endpoint}", facts.bytes);
    }
    let mut server = Server::new(endpoints, &ending);
    (server.paced, server.once) = (args.paced, args.once);
    let watching = args.watch.start()?;
    watching.iter().for_each(|watching| watching.begin(&prepared));
    let live =
        Live { clients: &mut server, image: image.as_deref(), keep: sink(&mut device), keep_flash: sink(&mut flash) };
    let ran = prepared
        .serve(live, &mut |progress| watching.iter().for_each(|watching| watching.show(&progress)))
        .map_err(Stopped::from);
    drop((device, flash, server));
    let request = Request {
        file: &args.file,
        given,
        inputs,
        library: &library,
        format: None,
        read_opcode: None,
        out: args.out.as_deref(),
        flash: args.flash.as_deref(),
        disk: args.disk.as_deref(),
        from: args.from.as_deref(),
        logs: Paths::default(),
        flame: None,
        force: args.force,
        json: args.json,
        serves: true,
        watching: watching.as_ref(),
    };
    run::conclude(&request, ran.map(|found| (found, kept)), None, &overwrite)
}
