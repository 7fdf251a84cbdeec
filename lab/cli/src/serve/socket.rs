//! Where a server listens, and its connections.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::error::CliError;

/// An address: `unix:PATH` or `HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// A TCP port.
    Tcp(String),
}

impl Address {
    /// Reads an address.
    /// Errors: what is wrong with it.
    pub fn parse(text: &str) -> Result<Address, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err("found no path, expected unix:PATH".to_owned()),
            Some(path) => Ok(Address::Unix(path.into())),
            None if text
                .rsplit_once(':')
                .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok()) =>
            {
                Ok(Address::Tcp(text.to_owned()))
            }
            None => Err(format!("found {text:?}, expected unix:PATH or HOST:PORT")),
        }
    }
}

/// A socket that listens. Its file, if it has one, is removed when it is dropped.
#[derive(Debug)]
pub enum Listener {
    /// At a path.
    Unix(UnixListener, PathBuf),
    /// At a port.
    Tcp(TcpListener, SocketAddr),
}

impl Listener {
    /// Listens. An address of the network, which is not the loopback, is refused unless it is `allowed`.
    /// Errors: the address is in use, or may not be used.
    pub fn bind(address: &Address, anywhere: bool) -> Result<Listener, CliError> {
        match address {
            Address::Unix(path) => unix(path),
            Address::Tcp(text) => {
                let help = "use 127.0.0.1 or a Unix socket; --anywhere permits it: nobody is asked for a password";
                let (listener, bound) = tcp(text, anywhere, help)?;
                listener.set_nonblocking(true).map_err(|error| CliError::write(Path::new(text), &error))?;
                Ok(Listener::Tcp(listener, bound))
            }
        }
    }

    /// The next connection, if somebody waits.
    /// Errors: the system has no room for it.
    pub fn accept(&self) -> io::Result<Option<Stream>> {
        let stream = match self {
            Listener::Unix(listener, _) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
            Listener::Tcp(listener, _) => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
        };
        match stream {
            Ok(stream) => stream.ready().map(|()| Some(stream)),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Listens at HOST:PORT. An address of the network, which is not the loopback, is refused unless it is `allowed`; `help`
/// is the remedy.
/// Errors: the address is in use, or may not be used.
pub fn tcp(text: &str, allowed: bool, help: &str) -> Result<(TcpListener, SocketAddr), CliError> {
    let shown = Path::new(text);
    let failed = |error: &io::Error| {
        CliError::environment(shown, error.to_string(), "choose another host or port, as 127.0.0.1:10809")
    };
    let address = text.to_socket_addrs().map_err(|error| failed(&error))?.next();
    let address = address.ok_or_else(|| failed(&ErrorKind::AddrNotAvailable.into()))?;
    if !address.ip().is_loopback() && !allowed {
        let what = format!("found {}, an address that others can reach, expected the loopback", address.ip());
        return Err(CliError::input(shown, what, help));
    }
    let listener = TcpListener::bind(address).map_err(|error| failed(&error))?;
    let bound = listener.local_addr().map_err(|error| failed(&error))?;
    Ok((listener, bound))
}

/// Listens at a path. A socket that nobody listens at any more is replaced.
fn unix(path: &Path) -> Result<Listener, CliError> {
    if let Ok(found) = std::fs::symlink_metadata(path) {
        if !found.file_type().is_socket() {
            return Err(CliError::input(path, "found a file that is no socket", "name another path"));
        }
        match UnixStream::connect(path) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path).map_err(|error| CliError::write(path, &error))?;
            }
            _ => {
                let help = "end that server, or name another path";
                return Err(CliError::input(path, "found a socket at which somebody listens", help));
            }
        }
    }
    let failed = |error: io::Error| CliError::write(path, &error);
    let listener = UnixListener::bind(path).map_err(failed)?;
    let listener = Listener::Unix(listener, path.to_owned());
    if let Listener::Unix(socket, _) = &listener {
        socket.set_nonblocking(true).map_err(failed)?;
    }
    Ok(listener)
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix(listener, _) => listener.as_fd(),
            Listener::Tcp(listener, _) => listener.as_fd(),
        }
    }
}

/// A connection, which never blocks.
#[derive(Debug)]
pub enum Stream {
    /// Over a Unix socket.
    Unix(UnixStream),
    /// Over TCP.
    Tcp(TcpStream),
}

impl Stream {
    fn ready(&self) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_nonblocking(true),
            Stream::Tcp(stream) => stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(buffer),
            Stream::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(buffer),
            Stream::Tcp(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_a_path_or_a_host_with_a_port() {
        assert_eq!(Address::parse("unix:a/b.sock"), Ok(Address::Unix("a/b.sock".into())));
        assert_eq!(Address::parse("[::1]:10809"), Ok(Address::Tcp("[::1]:10809".to_owned())));
        for wrong in ["", "unix:", "nand.sock", "localhost", ":10809", "localhost:65536"] {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
    }
}
