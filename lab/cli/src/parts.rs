//! Parts (stand-in until the library of parts arrives).

use std::path::Path;

use runner::parts::Library;

use crate::error::CliError;

/// The library.
/// Errors: none yet.
pub fn library(_dir: Option<&Path>) -> Result<Library, CliError> {
    Ok(Library)
}
