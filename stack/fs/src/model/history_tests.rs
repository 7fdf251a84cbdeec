//! What a history allows and what it does not, by hand.

use std::sync::Arc;

use sim::seam::{Attr, FileSystem, Ino, NewInode, Payload, SetAttr, SetXattr, Timestamp};
use sim::{Cx, Ns};

use super::Model;
use super::history::{History, Leaves, Rule, Times};
use super::view::{BLOCK, Everything};

/// A model, its history, and what it was after each operation.
struct Past {
    model: Model,
    history: History,
    seconds: u64,
    found: Vec<Everything>,
}

impl Past {
    /// A file `/a` of two blocks, of ones, which is safe.
    fn new() -> (Past, Ino) {
        let mut model = Model::new(Timestamp::default());
        let mut cx = Cx::new();
        let root = model.root();
        let a = model.create(&mut cx, root, b"a", NewInode::of_root(0o644)).expect("a new name").ino;
        model.write(&mut cx, a, 0, Payload::Bytes(&[1; 2 * BLOCK as usize])).expect("a file");
        let history = History::new(&mut model, &mut cx);
        let found = Everything::of(&mut model, &mut cx).expect("a model");
        (Past { model, history, seconds: 0, found: vec![found] }, a)
    }

    /// An operation at a time of its own, which writes these bytes of a file.
    fn then(&mut self, wrote: std::ops::Range<u64>, operation: impl FnOnce(&mut Model, &mut Cx)) {
        self.seconds += 1;
        let mut cx = Cx::new();
        cx.wait_until(Ns(self.seconds * 1_000_000_000));
        operation(&mut self.model, &mut cx);
        self.history.record(&mut self.model, &mut cx, &[], wrote);
        self.found.push(Everything::of(&mut self.model, &mut cx).expect("a model"));
    }

    fn set(&mut self, ino: Ino, change: SetAttr) {
        self.then(0..0, |model, cx| assert!(model.setattr(cx, ino, &change).is_ok()));
    }

    fn write(&mut self, ino: Ino, byte: u8) {
        let bytes = [byte; 2 * BLOCK as usize];
        self.then(0..2 * BLOCK, |model, cx| assert!(model.write(cx, ino, 0, Payload::Bytes(&bytes)).is_ok()));
    }

    fn make(&mut self, name: &[u8]) {
        let root = self.model.root();
        self.then(0..0, |model, cx| assert!(model.create(cx, root, name, NewInode::of_root(0o644)).is_ok()));
    }

    fn rule(&self, found: &Everything) -> Option<Rule> {
        self.history.check(found).err().map(|breach| breach.rule)
    }

    /// The moments at which what was then may be there now.
    fn may_be(&self) -> Vec<usize> {
        (0..self.found.len()).filter(|&at| self.rule(&self.found[at]).is_none()).collect()
    }

    /// The broken rule, if of the last moment this is otherwise.
    fn changed(&self, ino: Ino, change: impl FnOnce(&mut Everything, Ino)) -> Option<Rule> {
        let mut found = self.found.last().expect("the beginning").clone();
        change(&mut found, ino);
        self.rule(&found)
    }
}

fn mode(mode: u32) -> SetAttr {
    SetAttr { mode: Some(mode), ..SetAttr::default() }
}

/// With the times of directories, which tell too when it was, and without them.
#[test]
fn names_are_those_of_any_moment_since_they_were_made_safe() {
    for times in [Times::All, Times::MayBeOlder, Times::NonePromised] {
        let (mut past, a) = Past::new();
        past.history = past.history.leaving(Leaves { torn_blocks: false, times });
        let root = past.model.root();
        past.make(b"b");
        past.make(b"c");
        assert_eq!(past.may_be(), [0, 1, 2]);
        past.history.fsync(a, false);
        assert_eq!(past.may_be(), [0, 1, 2], "a file has no names in it");
        past.history.fsync(root, false);
        assert_eq!(past.may_be(), [2]);
        past.make(b"d");
        past.make(b"e");
        assert_eq!(past.may_be(), [2, 3, 4]);
        past.history.sync();
        assert_eq!(past.may_be(), [4]);
    }
}

#[test]
fn attributes_are_those_of_any_moment_since_the_inode_was_made_safe() {
    let (mut past, a) = Past::new();
    for bits in 1..4 {
        past.set(a, mode(bits));
    }
    assert_eq!(past.may_be(), [0, 1, 2, 3]);
    past.history.fsync(a, true);
    assert_eq!(past.may_be(), [0, 1, 2, 3], "the data alone are safe");
    past.history.fsync(a, false);
    assert_eq!(past.may_be(), [3]);
    past.set(a, mode(4));
    past.set(a, mode(5));
    assert_eq!(past.may_be(), [3, 4, 5]);
    past.history.sync();
    assert_eq!(past.may_be(), [5]);
}

#[test]
fn blocks_are_those_of_any_moment_since_the_data_were_made_safe_each_for_itself() {
    let (mut past, a) = Past::new();
    past.write(a, 2);
    past.write(a, 3);
    let with = |blocks: [u8; 2]| {
        move |found: &mut Everything, a| {
            let of = |byte| Arc::new([byte; BLOCK as usize]);
            found.inodes.get_mut(&a).expect("it is there").blocks = [(0, of(blocks[0])), (1, of(blocks[1]))].into();
        }
    };
    for (blocks, before, after) in [
        ([1, 3], true, false),
        ([3, 1], true, false),
        ([2, 3], true, false),
        ([3, 3], true, true),
        ([4, 3], false, false),
    ] {
        let mut past =
            Past { model: past.model.clone(), history: past.history.clone(), seconds: 2, found: past.found.clone() };
        assert_eq!(past.changed(a, with(blocks)), (!before).then_some(Rule::Contents), "{blocks:?}");
        past.history.fsync(a, true);
        assert_eq!(past.changed(a, with(blocks)), (!after).then_some(Rule::Contents), "{blocks:?}, after fdatasync");
    }
}

/// Everything that an inode is, changed alone, is found by its rule.
#[test]
fn what_an_inode_never_was_breaks_a_rule() {
    let (mut past, a) = Past::new();
    past.then(0..0, |model, cx| model.setxattr(cx, a, b"user.x", b"1", SetXattr::Set).expect("a file"));
    past.history.sync();
    type Change = fn(&mut Attr);
    let changes: [(Change, Rule); 9] = [
        (|attr| attr.nlink = 2, Rule::Names),
        (|attr| attr.mode ^= 1, Rule::Attributes),
        (|attr| attr.uid += 1, Rule::Attributes),
        (|attr| attr.gid += 1, Rule::Attributes),
        (|attr| attr.atime.seconds += 1, Rule::Attributes),
        (|attr| attr.mtime.seconds += 1, Rule::Attributes),
        (|attr| attr.ctime.seconds += 1, Rule::Attributes),
        (|attr| attr.size -= 1, Rule::Contents),
        (|attr| attr.size += 1, Rule::Contents),
    ];
    for (at, (change, rule)) in changes.into_iter().enumerate() {
        let told = past.changed(a, |found, a| change(&mut found.inodes.get_mut(&a).expect("it is there").attr));
        assert_eq!(told, Some(rule), "change {at}");
    }
    for block in 0..2 {
        let gone =
            |found: &mut Everything, a| drop(found.inodes.get_mut(&a).expect("it is there").blocks.remove(&block));
        assert_eq!(past.changed(a, gone), Some(Rule::Contents), "block {block}");
    }
    let others = [
        past.changed(a, |found, a| found.inodes.get_mut(&a).expect("it is there").xattrs.clear()),
        past.changed(a, |found, a| found.names.extend([(b"/b".to_vec(), a)])),
        past.changed(a, |found, _| found.names.retain(|path, _| &path[..] != b"/a")),
        past.changed(a, |_, _| ()),
    ];
    assert_eq!(others, [Some(Rule::Xattrs), Some(Rule::Names), Some(Rule::Names), None]);
}

/// A block up to some byte, and a file that ends there: nothing that any other may leave.
#[test]
fn a_torn_block_is_left_by_those_alone_that_may() {
    for torn_blocks in [false, true] {
        let (mut past, a) = Past::new();
        past.history = past.history.leaving(Leaves { torn_blocks, times: Times::All });
        past.write(a, 2);
        let torn = |until: usize, reverse: bool| {
            past.changed(a, |found, a| {
                let mut block = [if reverse { 1 } else { 2 }; BLOCK as usize];
                block[until..].fill(if reverse { 2 } else { 1 });
                found.inodes.get_mut(&a).expect("it is there").blocks.insert(0, Arc::new(block));
            })
        };
        let allowed = (!torn_blocks).then_some(Rule::Contents);
        assert_eq!([torn(1, false), torn(4095, false)], [allowed; 2]);
        assert_eq!(torn(1000, true), Some(Rule::Contents), "new from some byte on");
    }
}
