//! Things by the number of an inode. Most numbers are small and follow one another; an image may have any.

use std::collections::BTreeMap;
use std::ops::Index;

/// Numbers below this are found without a search.
const LOW: u32 = 1 << 16;
/// Numbers of a chunk. Numbers of inodes are not used again: those of old ones are few and far between.
const CHUNK: u32 = 32;

/// Places of numbers that follow one another.
#[derive(Clone, Debug)]
struct Chunk<T> {
    /// How many are taken.
    held: u32,
    places: [Option<T>; CHUNK as usize],
}

/// At most one `T` for each number, in the order of the numbers.
#[derive(Clone, Debug)]
pub struct Numbered<T> {
    /// Those that hold something.
    low: Vec<Option<Box<Chunk<T>>>>,
    high: BTreeMap<u32, T>,
    len: usize,
}

impl<T> Numbered<T> {
    pub fn new() -> Numbered<T> {
        Numbered { low: Vec::new(), high: BTreeMap::new(), len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn get(&self, number: u32) -> Option<&T> {
        if number >= LOW {
            return self.high.get(&number);
        }
        self.low.get((number / CHUNK) as usize)?.as_ref()?.places[(number % CHUNK) as usize].as_ref()
    }

    #[inline]
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        if number >= LOW {
            return self.high.get_mut(&number);
        }
        self.low.get_mut((number / CHUNK) as usize)?.as_mut()?.places[(number % CHUNK) as usize].as_mut()
    }

    #[inline]
    pub fn has(&self, number: u32) -> bool {
        self.get(number).is_some()
    }

    /// Puts one in the place of what has the number.
    pub fn insert(&mut self, number: u32, one: T) {
        self.remove(number);
        self.get_or_insert_with(number, || one);
    }

    /// The one of a number, made by `make` if there is none.
    pub fn get_or_insert_with(&mut self, number: u32, make: impl FnOnce() -> T) -> &mut T {
        let is_new = !self.has(number);
        self.len += usize::from(is_new);
        if number >= LOW {
            return self.high.entry(number).or_insert_with(make);
        }
        let at = (number / CHUNK) as usize;
        if at >= self.low.len() {
            self.low.resize_with(at + 1, || None);
        }
        let empty = || Box::new(Chunk { held: 0, places: [const { None }; CHUNK as usize] });
        let chunk = self.low[at].get_or_insert_with(empty);
        chunk.held += u32::from(is_new);
        chunk.places[(number % CHUNK) as usize].get_or_insert_with(make)
    }

    pub fn remove(&mut self, number: u32) -> Option<T> {
        let one = if number >= LOW {
            self.high.remove(&number)?
        } else {
            let place = self.low.get_mut((number / CHUNK) as usize)?;
            let chunk = place.as_mut()?;
            let one = chunk.places[(number % CHUNK) as usize].take()?;
            chunk.held -= 1;
            if chunk.held == 0 {
                *place = None;
            }
            one
        };
        self.len -= 1;
        Some(one)
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let chunks = (0..).step_by(CHUNK as usize).zip(&self.low);
        let low = chunks.filter_map(|(first, chunk)| Some((first, chunk.as_ref()?)));
        let low = low.flat_map(|(first, chunk)| (first..).zip(&chunk.places));
        let low = low.filter_map(|(number, one)| Some((number, one.as_ref()?)));
        low.chain(self.high.iter().map(|(&number, one)| (number, one)))
    }

    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.iter().map(|(_, one)| one)
    }

    /// Drops what `keep` is false of.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        let others: Vec<u32> = self.iter().filter(|(_, one)| !keep(one)).map(|(number, _)| number).collect();
        for number in others {
            self.remove(number);
        }
    }
}

impl<T> Index<u32> for Numbered<T> {
    type Output = T;

    fn index(&self, number: u32) -> &T {
        self.get(number).expect("there is one of the number")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A map of the standard library is the model; numbers on both sides of the limit.
        #[test]
        fn it_is_a_map_in_the_order_of_the_numbers(
            steps in proptest::collection::vec((0..5, prop_oneof![0..70_u32, LOW - 5..LOW + 5, u32::MAX - 3..=u32::MAX], any::<u8>()), 1..100)
        ) {
            let (mut ours, mut model) = (Numbered::new(), BTreeMap::new());
            for (step, number, value) in steps {
                match step {
                    0 => {
                        ours.insert(number, value);
                        model.insert(number, value);
                    }
                    1 => prop_assert_eq!(ours.remove(number), model.remove(&number)),
                    2 => {
                        let made = *ours.get_or_insert_with(number, || value);
                        prop_assert_eq!(made, *model.entry(number).or_insert(value));
                    }
                    3 => {
                        let changed = ours.get_mut(number).map(|one| *one = value).is_some();
                        prop_assert_eq!(changed, model.get_mut(&number).map(|one| *one = value).is_some());
                    }
                    _ => {
                        ours.retain(|&one| one > value / 4);
                        model.retain(|_, &mut one| one > value / 4);
                    }
                }
                prop_assert_eq!(ours.has(number), model.contains_key(&number));
                prop_assert_eq!(ours.len(), model.len());
                prop_assert!(ours.iter().eq(model.iter().map(|(&number, one)| (number, one))));
            }
        }
    }
}
