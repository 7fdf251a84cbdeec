//! A heap of LEBs, the greatest first, whose members know their places. It has room for 256, as Linux's (`LPT_HEAP_SZ`).

use std::cmp::Ordering;

use super::Leb;

/// Most members.
pub(super) const ROOM: usize = 256;

/// Place in a full heap of the member that a LEB must exceed to come in. Linux takes one of the lower half by the address of
/// the LEB's properties: four LEBs in an object of 192 bytes behind 40 bytes of others, 21 objects in a page. Here the objects follow
/// one another.
pub(super) fn rival(at: u32) -> usize {
    let address = at / 4 % 21 * 192 + 40 + at % 4 * 32;
    (address / 16 % 128) as usize + ROOM / 2 - 1
}

/// LEBs by value.
#[derive(Clone, Debug, Default)]
pub(super) struct Heap(Vec<(i32, u32)>);

impl Heap {
    /// The members, the greatest first and the others in the heap's order.
    pub fn members(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().map(|&(_, at)| at)
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a LEB. Of a full heap it takes the place of its rival, or has none. Returns the one that is left without.
    pub fn push(&mut self, at: u32, value: i32, lebs: &mut [Leb]) -> Option<u32> {
        let (mut place, mut out) = (self.0.len(), None);
        if place < ROOM {
            self.0.push((value, at));
        } else {
            place = rival(at);
            let least = &mut self.0[place];
            if value <= least.0 {
                return Some(at);
            }
            out = Some(least.1);
            *least = (value, at);
        }
        lebs[at as usize].place = place as u32;
        self.rise(place, lebs);
        out
    }

    pub fn remove(&mut self, at: u32, lebs: &mut [Leb]) {
        let place = lebs[at as usize].place as usize;
        self.0.swap_remove(place);
        if place < self.0.len() {
            lebs[self.0[place].1 as usize].place = place as u32;
            let place = self.rise(place, lebs);
            self.sink(place, lebs);
        }
    }

    pub fn change(&mut self, at: u32, value: i32, lebs: &mut [Leb]) {
        let place = lebs[at as usize].place as usize;
        match std::mem::replace(&mut self.0[place].0, value).cmp(&value) {
            Ordering::Less => drop(self.rise(place, lebs)),
            Ordering::Equal => {}
            Ordering::Greater => self.sink(place, lebs),
        }
    }

    fn swap(&mut self, one: usize, two: usize, lebs: &mut [Leb]) {
        self.0.swap(one, two);
        lebs[self.0[one].1 as usize].place = one as u32;
        lebs[self.0[two].1 as usize].place = two as u32;
    }

    fn rise(&mut self, mut place: usize, lebs: &mut [Leb]) -> usize {
        while place > 0 {
            let above = (place - 1) / 2;
            if self.0[above].0 >= self.0[place].0 {
                break;
            }
            self.swap(above, place, lebs);
            place = above;
        }
        place
    }

    fn sink(&mut self, mut place: usize, lebs: &mut [Leb]) {
        loop {
            let below = [2 * place + 1, 2 * place + 2].into_iter().filter(|&below| below < self.0.len());
            let Some(greatest) = below.max_by_key(|&below| (self.0[below].0, usize::MAX - below)) else { return };
            if self.0[greatest].0 <= self.0[place].0 {
                return;
            }
            self.swap(greatest, place, lebs);
            place = greatest;
        }
    }
}
