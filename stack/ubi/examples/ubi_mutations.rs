//! Prints the mutations of a flash that Linux wrote, for `.ci/kernel-ubi`, which records what Linux makes of each.

#[path = "../tests/kernel/bases.rs"]
mod bases;
#[path = "../tests/kernel/mutations.rs"]
mod mutations;

fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    let Some(small) = bases::SMALL.iter().find(|small| small.name == name) else {
        let names: Vec<&str> = bases::SMALL.iter().map(|small| small.name).collect();
        eprintln!("error: no flash {name:?}; expected one of {}", names.join(", "));
        std::process::exit(2);
    };
    let bytes = small.bytes();
    small.tried(&small.base(&bytes)).iter().for_each(|mutation| println!("{}", mutation.line()));
}
