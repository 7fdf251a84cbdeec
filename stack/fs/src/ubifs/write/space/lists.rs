//! Lists of LEBs, the newest first. A LEB is in one of them at most, and any can be taken out.

/// No LEB: an end of a list.
const END: u32 = u32::MAX;

/// Neighbours of a LEB in its list.
#[derive(Clone, Copy, Debug)]
struct Links {
    newer: u32,
    older: u32,
}

/// `N` lists.
#[derive(Clone, Debug)]
pub(super) struct Lists<const N: usize> {
    links: Vec<Links>,
    newest: [u32; N],
    len: [u32; N],
}

impl<const N: usize> Lists<N> {
    /// Empty lists for the LEBs below `lebs`.
    pub fn new(lebs: usize) -> Lists<N> {
        Lists { links: vec![Links { newer: END, older: END }; lebs], newest: [END; N], len: [0; N] }
    }

    /// The members of a list, the newest first.
    pub fn members(&self, list: usize) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.newest(list), move |&at| some(self.links[at as usize].older))
    }

    /// The newest of a list.
    pub fn newest(&self, list: usize) -> Option<u32> {
        some(self.newest[list])
    }

    /// Number of members of a list.
    pub fn len(&self, list: usize) -> u32 {
        self.len[list]
    }

    /// Adds a LEB that is in no list.
    pub fn push(&mut self, list: usize, at: u32) {
        let older = std::mem::replace(&mut self.newest[list], at);
        self.links[at as usize] = Links { newer: END, older };
        if let Some(links) = self.links.get_mut(older as usize) {
            links.newer = at;
        }
        self.len[list] += 1;
    }

    /// Takes out a LEB of a list.
    pub fn remove(&mut self, list: usize, at: u32) {
        let Links { newer, older } = self.links[at as usize];
        match self.links.get_mut(newer as usize) {
            Some(links) => links.older = older,
            None => self.newest[list] = older,
        }
        if let Some(links) = self.links.get_mut(older as usize) {
            links.newer = newer;
        }
        self.len[list] -= 1;
    }
}

fn some(at: u32) -> Option<u32> {
    Some(at).filter(|&at| at != END)
}
