//! A server over a drive: one thread, which polls its clients and the drive.

use std::time::{Duration, Instant};

use runner::run::live::{CLIENTS, Clients, LiveDrive, LiveShape};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sim::Ns;
use sim::seam::{BlockRequest, SECTOR_BYTES};

use super::client::{Client, Endpoint, Gone, Piece};
use crate::interrupt::Ending;

/// Most clients at a time.
const MOST_CLIENTS: usize = 16;
/// How long a paced server sleeps while the drive works.
const PACE: Duration = Duration::from_micros(20);

/// A server.
pub struct Server<'a> {
    /// Where clients come from.
    endpoints: Vec<Box<dyn Endpoint>>,
    /// Whether virtual time follows the clock on the wall.
    pub paced: bool,
    /// Whether it ends when its last client has gone.
    pub once: bool,
    /// Whether it is to end.
    ending: &'a Ending,
    /// Clients by slot; a slot is used again.
    clients: Vec<Option<(u64, Box<dyn Client>)>>,
    /// Clients that came.
    came: u64,
    /// Clients that sent a request.
    served: u64,
}

/// What a tag is used for.
#[derive(Clone, Copy, Debug)]
struct Use {
    slot: usize,
    client: u64,
    piece: Piece,
}

/// The drive and its tags.
struct Tags<'d> {
    drive: &'d mut dyn LiveDrive,
    uses: Vec<Option<Use>>,
    free: Vec<u32>,
    /// When virtual time began.
    began: Option<Instant>,
    paced: bool,
}

impl Tags<'_> {
    /// Virtual time of now, of a paced server.
    fn now(&mut self) -> Ns {
        let now = Instant::now();
        let began = *self.began.get_or_insert(now);
        Ns(u64::try_from((now - began).as_nanos()).unwrap_or(u64::MAX))
    }

    fn are_outstanding(&self) -> bool {
        self.free.len() < self.uses.len()
    }

    /// Submits the pieces that a client has. Returns how many; stops where no tag is free.
    fn submit(&mut self, slot: usize, number: u64, client: &mut dyn Client) -> u64 {
        let mut submitted = 0;
        while let Some(&tag) = self.free.last()
            && let Some(piece) = client.next()
        {
            let sectors = u64::from(SECTOR_BYTES);
            let request = BlockRequest {
                op: piece.op,
                sector: piece.offset / sectors,
                sectors: (u64::from(piece.length) / sectors) as u32,
                fua: piece.fua,
                // Each client has queues of its own, as far as the drive has so many.
                queue: (slot as u16 + piece.queue) % MOST_CLIENTS as u16,
            };
            let at = if self.paced { self.now() } else { Ns::ZERO };
            let client_number = number as usize;
            match self.drive.submit(at, tag, request, client.carried(&piece), client_number) {
                Ok(()) => {
                    self.free.pop();
                    self.uses[tag as usize] = Some(Use { slot, client: number, piece });
                    client.submitted(&piece, None);
                }
                Err(error) => client.submitted(&piece, Some(&error)),
            }
            submitted += 1;
        }
        submitted
    }

    /// Completes what is done, up to now if paced.
    fn complete(&mut self, clients: &mut [Option<(u64, Box<dyn Client>)>]) -> bool {
        let mut any = false;
        while self.are_outstanding() {
            let until = if self.paced { self.now() } else { Ns(u64::MAX) };
            let Some(done) = self.drive.next_done(until) else { break };
            any = true;
            let Some(Use { slot, client: number, piece }) = self.uses[done.tag as usize].take() else { continue };
            if let Some((known, client)) = &mut clients[slot]
                && *known == number
            {
                client.done(&piece, done.result.as_ref().err(), &mut |data| self.drive.take(done.tag, data));
            }
            self.free.push(done.tag);
        }
        any
    }
}

impl<'a> Server<'a> {
    /// A server that serves nobody yet.
    pub fn new(endpoints: Vec<Box<dyn Endpoint>>, ending: &'a Ending) -> Server<'a> {
        Server { endpoints, paced: false, once: false, ending, clients: Vec::new(), came: 0, served: 0 }
    }

    fn accept(&mut self, endpoint: usize, shape: LiveShape) -> Result<(), String> {
        if let Some(client) = self.endpoints[endpoint].accept(shape)? {
            let slot = self.clients.iter().position(Option::is_none).unwrap_or(self.clients.len());
            if slot >= MOST_CLIENTS {
                eprintln!("client refused: there are {MOST_CLIENTS} already");
                return Ok(());
            }
            if slot == self.clients.len() {
                self.clients.push(None);
            }
            self.clients[slot] = Some((self.came, client));
            self.came += 1;
        }
        Ok(())
    }

    /// Waits until a client sends or can take something, or somebody comes. Returns endpoints and slots that are ready.
    fn wait(&self, timeout: Duration) -> Result<(Vec<usize>, Vec<usize>), String> {
        let mut fds = vec![PollFd::new(self.ending, PollFlags::IN)];
        fds.extend(self.endpoints.iter().map(|endpoint| PollFd::new(endpoint, PollFlags::IN)));
        let mut slots = Vec::with_capacity(self.clients.len());
        for (slot, client) in self.clients.iter().enumerate() {
            let Some((_, client)) = client else { continue };
            fds.push(PollFd::from_borrowed_fd(client.fd(), client.wants()));
            slots.push(slot);
        }
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.to_string()),
        }
        let (endpoints, clients) = fds[1..].split_at(self.endpoints.len());
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let endpoints =
            endpoints.iter().enumerate().filter(|(_, fd)| is_ready(fd)).map(|(endpoint, _)| endpoint).collect();
        let slots = slots.into_iter().zip(clients).filter(|(_, fd)| is_ready(fd)).map(|(slot, _)| slot).collect();
        Ok((endpoints, slots))
    }

    /// Forgets those who have gone. Returns whether nobody is left of those who came.
    fn forget(&mut self) -> bool {
        for slot in &mut self.clients {
            let Some((number, client)) = slot else { continue };
            if let Some(why) = client.gone() {
                if let Gone::Because(why) = why {
                    eprintln!("client {number}: {why}");
                }
                *slot = None;
            }
        }
        self.came > 0 && self.clients.iter().all(Option::is_none)
    }
}

impl Clients for Server<'_> {
    fn serve(&mut self, drive: &mut dyn LiveDrive) -> Result<(), String> {
        let shape = drive.shape();
        let mut tags = Tags {
            drive,
            uses: vec![None; shape.depth as usize],
            free: (0..shape.depth).rev().collect(),
            began: None,
            paced: self.paced,
        };
        loop {
            let timeout = if self.paced && tags.are_outstanding() { PACE } else { Duration::from_secs(1) };
            let (endpoints, ready) = self.wait(timeout)?;
            if self.ending.is_asked() {
                break;
            }
            for endpoint in endpoints {
                self.accept(endpoint, shape)?;
            }
            for slot in ready {
                if let Some((_, client)) = &mut self.clients[slot] {
                    client.receive();
                }
            }
            // A completion frees a tag, which lets the next request go.
            loop {
                let mut moved = 0;
                for (slot, client) in self.clients.iter_mut().enumerate() {
                    if let Some((number, client)) = client {
                        let submitted = tags.submit(slot, *number, client.as_mut());
                        if submitted > 0 {
                            self.served = self.served.max(*number + 1);
                        }
                        moved += submitted;
                    }
                }
                let completed = tags.complete(&mut self.clients);
                if moved == 0 && !completed {
                    break;
                }
            }
            for (_, client) in self.clients.iter_mut().flatten() {
                client.send();
            }
            if self.forget() && self.once && !tags.are_outstanding() {
                break;
            }
        }
        // What the drive has begun, it completes.
        while tags.are_outstanding() {
            let Some(done) = tags.drive.next_done(Ns(u64::MAX)) else { break };
            tags.uses[done.tag as usize] = None;
            tags.free.push(done.tag);
        }
        Ok(())
    }

    fn names(&self) -> Vec<String> {
        let named = (0..self.served.min(CLIENTS as u64)).map(|number| format!("client {number}"));
        let mut names: Vec<String> = named.collect();
        if self.served > CLIENTS as u64 {
            names[CLIENTS - 1] = "others".to_owned();
        }
        names
    }
}
