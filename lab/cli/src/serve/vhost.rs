//! vhost-user-blk: front ends such as QEMU, which share their guest's memory and queues with the server.
//!
//! Three threads stand behind a front end: one reads its messages, one hears the kicks of its queues (both are those of
//! `vhost-user-backend`), and one waits until the first has ended. None of them touches the drive, and none takes a request
//! off a queue: they wake the server's loop, which does.

mod front_end;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use runner::export::vhost_blk::{Disk, WRITEBACK, feature};
use runner::run::live::LiveShape;
use rustix::event::{EventfdFlags, eventfd};
use vhost::vhost_user::message::{VhostUserProtocolFeatures, VhostUserVirtioFeatures};
use vhost_user_backend::{Error, VhostUserBackend, VhostUserDaemon, VringRwLock};
use virtio_bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};
use vm_memory::{GuestAddressSpace, GuestMemoryAtomic, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion};
use vmm_sys_util::epoll::EventSet;

use self::front_end::FrontEnd;
use super::client::{Client, Endpoint, Gone, MOST_BYTES};
use super::socket::Listener;
use crate::error::CliError;

/// Queues of a front end.
const QUEUES: usize = 16;
/// Most requests of a queue.
const QUEUE_SIZE: usize = 1024;
/// Event of the thread of kicks: it is to end.
const END: u16 = QUEUES as u16 + 1;
/// Most bytes of a range to discard.
const MOST_DISCARDED: u32 = 1 << 30;

/// A Unix socket that front ends connect to.
pub struct VhostEndpoint {
    socket: Listener,
    listener: vhost::vhost_user::Listener,
    /// Serial number of the disk.
    id: String,
}

impl VhostEndpoint {
    /// Lets front ends in at a Unix socket.
    /// Errors: the system has no room for another descriptor of it.
    pub fn new(socket: Listener, id: String) -> Result<VhostEndpoint, CliError> {
        let Listener::Unix(listener, path) = &socket else { unreachable!("the address is a path") };
        let listener = listener.try_clone().map_err(|error| CliError::write(path, &error))?;
        Ok(VhostEndpoint { socket, listener: listener.into(), id })
    }

    fn start(&mut self, disk: Disk) -> Result<FrontEnd, String> {
        let said = |error: &dyn fmt::Display| format!("a front end cannot be served: {error}");
        let link = Link::new(disk).map_err(|error| said(&error))?;
        let link = Arc::new(link);
        let mut daemon = VhostUserDaemon::new("vhost-user".to_owned(), Arc::clone(&link), link.memory.clone())
            .map_err(|error| said(&error))?;
        for handler in daemon.get_epoll_handlers() {
            handler
                .register_listener(link.end.as_raw_fd(), EventSet::IN, u64::from(END))
                .map_err(|error| said(&error))?;
        }
        daemon.start(&mut self.listener).map_err(|error| said(&error))?;
        let hang_up = daemon.shutdown_handle();
        let waiting = Arc::clone(&link);
        let thread = std::thread::Builder::new().name("vhost-user end".to_owned());
        let spawned = thread.spawn(move || {
            let gone = match daemon.wait() {
                Ok(()) | Err(Error::HandleRequest(vhost::vhost_user::Error::Disconnected)) => Gone::InOrder,
                Err(error) => Gone::Because(format!("the front end broke the protocol: {error}")),
            };
            waiting.has_ended(gone);
            // Waits for the thread of kicks.
            drop(daemon);
        });
        spawned.map_err(|error| said(&error))?;
        Ok(FrontEnd::new(link, hang_up))
    }
}

impl AsFd for VhostEndpoint {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl fmt::Display for VhostEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.socket {
            Listener::Unix(_, path) => write!(f, "vhost-user-blk at {}", path.display()),
            Listener::Tcp(_, address) => write!(f, "vhost-user-blk at {address}"),
        }
    }
}

impl Endpoint for VhostEndpoint {
    fn accept(&mut self, shape: LiveShape) -> Result<Option<Box<dyn Client>>, String> {
        let disk = Disk {
            id: self.id.clone(),
            bytes: shape.bytes,
            physical_bytes: shape.preferred_bytes,
            queues: QUEUES as u16,
            most_bytes: MOST_BYTES,
            most_discarded: MOST_DISCARDED,
            read_only: shape.read_only,
        };
        let front_end = self.start(disk)?;
        Ok(Some(Box::new(front_end)))
    }
}

/// What the threads behind a front end share with the server's loop.
struct Link {
    disk: Disk,
    /// The guest's memory, as the front end gives it.
    memory: GuestMemoryAtomic<GuestMemoryMmap>,
    /// The queues, from the first kick on.
    queues: OnceLock<Vec<VringRwLock>>,
    /// A bit for each queue that was kicked.
    kicked: AtomicU64,
    /// Feature bits that the driver took.
    features: AtomicU64,
    /// What the driver wrote into the configuration's byte `writeback`.
    write_back: AtomicBool,
    state: Mutex<State>,
    /// A queue has no request under way any more.
    idle: Condvar,
    /// Can be read when the server's loop has to look.
    wake: OwnedFd,
    /// Can be read when the thread of kicks is to end.
    end: OwnedFd,
}

struct State {
    /// Requests under way, by queue.
    under_way: [u32; QUEUES],
    /// Why there is no connection any more.
    gone: Option<Gone>,
    /// The server's loop has forgotten the front end.
    forgotten: bool,
}

fn notify(event: &OwnedFd) {
    // It fails only where the event is pending anyway.
    let _ = rustix::io::write(event, &1u64.to_ne_bytes());
}

impl Link {
    fn new(disk: Disk) -> io::Result<Link> {
        let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        Ok(Link {
            disk,
            memory: GuestMemoryAtomic::new(GuestMemoryMmap::new()),
            queues: OnceLock::new(),
            kicked: AtomicU64::new(0),
            features: AtomicU64::new(0),
            write_back: AtomicBool::new(true),
            state: Mutex::new(State { under_way: [0; QUEUES], gone: None, forgotten: false }),
            idle: Condvar::new(),
            wake: event()?,
            end: event()?,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the server's loop.
    fn wake(&self) {
        notify(&self.wake);
    }

    fn has_ended(&self, gone: Gone) {
        self.state().gone = Some(gone);
        notify(&self.end);
        self.wake();
    }

    /// A request of a queue is under way.
    fn began(&self, queue: usize) {
        self.state().under_way[queue] += 1;
    }

    /// A request of a queue is answered.
    fn ended(&self, queue: usize) {
        let mut state = self.state();
        state.under_way[queue] -= 1;
        if state.under_way[queue] == 0 {
            self.idle.notify_all();
        }
    }

    fn forget(&self) {
        self.state().forgotten = true;
        self.idle.notify_all();
    }

    /// Whether a write has to be durable when it completes.
    fn writes_through(&self) -> bool {
        let has = |bit: u32| self.features.load(Ordering::Relaxed) >> bit & 1 == 1;
        if has(feature::CONFIG_WCE) { !self.write_back.load(Ordering::Relaxed) } else { !has(feature::FLUSH) }
    }
}

impl VhostUserBackend for Link {
    type Bitmap = ();
    type Vring = VringRwLock;

    fn num_queues(&self) -> usize {
        QUEUES
    }

    fn max_queue_size(&self) -> usize {
        QUEUE_SIZE
    }

    fn features(&self) -> u64 {
        let ring = [VIRTIO_F_VERSION_1, VIRTIO_RING_F_INDIRECT_DESC, VIRTIO_RING_F_EVENT_IDX];
        let ring = ring.iter().fold(0, |bits, bit| bits | 1 << bit);
        self.disk.features() | ring | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits()
    }

    fn acked_features(&self, features: u64) {
        self.features.store(features, Ordering::Relaxed);
    }

    fn protocol_features(&self) -> VhostUserProtocolFeatures {
        VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS
    }

    fn reset_device(&self) {
        self.features.store(0, Ordering::Relaxed);
        self.write_back.store(true, Ordering::Relaxed);
    }

    fn set_event_idx(&self, _enabled: bool) {}

    fn get_config(&self, offset: u32, size: u32) -> Vec<u8> {
        let config = self.disk.config(self.write_back.load(Ordering::Relaxed));
        // What lies behind belongs to features that are not there.
        let bytes = config.into_iter().chain(std::iter::repeat(0));
        bytes.skip(offset as usize).take(size as usize).collect()
    }

    fn set_config(&self, offset: u32, bytes: &[u8]) -> io::Result<()> {
        match (offset as usize, bytes) {
            (WRITEBACK, &[value @ (0 | 1)]) => {
                self.write_back.store(value == 1, Ordering::Relaxed);
                Ok(())
            }
            _ => Err(io::Error::other("the driver writes what it may only read of the configuration")),
        }
    }

    /// Refuses memory that its file does not have: the system ends a process that touches it.
    fn update_memory(&self, memory: GuestMemoryAtomic<GuestMemoryMmap>) -> io::Result<()> {
        for region in memory.memory().iter() {
            let Some(place) = region.file_offset() else { continue };
            let file = place.file().metadata()?;
            if file.is_file() && place.start().checked_add(region.len()).is_none_or(|end| end > file.len()) {
                return Err(io::Error::other("a region of memory is longer than its file"));
            }
        }
        Ok(())
    }

    fn stop_vring(&self, queue: u32) -> io::Result<()> {
        let mut state = self.state();
        // Of a queue that is stopped, nothing is taken any more.
        while state.under_way[queue as usize] > 0 && !state.forgotten {
            state = self.idle.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    fn handle_event(&self, event: u16, _events: EventSet, queues: &[VringRwLock], _thread: usize) -> io::Result<()> {
        if usize::from(event) >= QUEUES {
            return Err(io::Error::other("the front end has gone"));
        }
        self.queues.get_or_init(|| queues.to_vec());
        self.kicked.fetch_or(1 << event, Ordering::Release);
        self.wake();
        Ok(())
    }
}
