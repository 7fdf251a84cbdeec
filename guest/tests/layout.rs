//! The driver's header and `protocol` state one layout: a C compiler prints the header's.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use guest::protocol::{self, Op, Status, UbiOp, at, feature, turn};

/// What a C compiler makes of expressions of the header: a line each.
fn by_the_compiler(expressions: &[String]) -> Vec<u64> {
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("driver");
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (dir.join("layout.c"), dir.join("layout"));
    let mut text = "#include <stddef.h>\n#include <stdio.h>\n#include \"channel.h\"\nint main(void) {\n".to_owned();
    for expression in expressions {
        writeln!(text, "\tprintf(\"%llu\\n\", (unsigned long long)({expression}));").unwrap();
    }
    text.push_str("}\n");
    fs::write(&source, text).unwrap();
    let compiled = Command::new("cc").arg("-I").arg(driver).arg(&source).arg("-o").arg(&program).status().unwrap();
    assert!(compiled.success(), "cc does not compile {}", source.display());
    let said = Command::new(&program).output().unwrap();
    String::from_utf8(said.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect()
}

fn agree(pairs: &[(String, u64)]) {
    let expressions: Vec<String> = pairs.iter().map(|(expression, _)| expression.clone()).collect();
    let theirs = by_the_compiler(&expressions);
    for ((expression, ours), theirs) in pairs.iter().zip(theirs) {
        assert_eq!(*ours, theirs, "{expression}");
    }
}

#[test]
fn fields_constants_and_codes_are_the_header_s() {
    let mut pairs: Vec<(String, u64)> = at::ALL
        .iter()
        .map(|(name, place)| (format!("offsetof(struct nl_shared, {})", name.to_lowercase()), *place as u64))
        .collect();
    let request = |field: &str| format!("offsetof(struct nl_request, {field})");
    // Where `Request::read` looks.
    for (field, place) in
        [("at", 0), ("sector", 8), ("sectors", 16), ("tag", 20), ("op", 22), ("flags", 23), ("pid", 24), ("comm", 32)]
    {
        pairs.push((request(field), place));
    }
    let more: &[(&str, u64)] = &[
        ("sizeof(struct nl_request)", protocol::REQUEST_BYTES as u64),
        ("sizeof(struct nl_done)", protocol::DONE_BYTES as u64),
        ("offsetof(struct nl_done, status)", 4),
        ("NL_MAGIC", protocol::MAGIC.into()),
        ("NL_VERSION", protocol::VERSION.into()),
        ("NL_MOST_TAGS", protocol::MOST_TAGS.into()),
        ("NL_RUN", Op::Run as u64),
        ("NL_READ", Op::Read as u64),
        ("NL_PROGRAM", Op::Program as u64),
        ("NL_ERASE", Op::Erase as u64),
        ("NL_IS_BAD", Op::IsBad as u64),
        ("NL_MARK_BAD", Op::MarkBad as u64),
        ("NL_OUTPUT", Op::Output as u64),
        ("NL_INPUT", Op::Input as u64),
        ("NL_MARK", Op::Mark as u64),
        ("NL_UBI", Op::Ubi as u64),
        ("NL_UBI_MAP", UbiOp::Map as u64),
        ("NL_UBI_UNMAP", UbiOp::Unmap as u64),
        ("NL_UBI_WRITE", UbiOp::Write as u64),
        ("NL_UBI_WRITE_STATIC", UbiOp::WriteStatic as u64),
        ("NL_UBI_CHANGE", UbiOp::Change as u64),
        ("NL_UBI_MOVE", UbiOp::Move as u64),
        ("NL_CALLED", turn::CALLED.into()),
        ("NL_ASLEEP", turn::ASLEEP.into()),
        ("NL_REPLIED", turn::REPLIED.into()),
        ("NL_OK", Status::Ok as u64),
        ("NL_ERROR", Status::Error as u64),
        ("NL_UNCORRECTABLE", Status::Uncorrectable as u64),
        ("NL_BAD_BLOCK", Status::BadBlock as u64),
        ("NL_HAS_CACHE", feature::CACHE.into()),
        ("NL_HAS_FUA", feature::FUA.into()),
        ("NL_HAS_TRIM", feature::TRIM.into()),
    ];
    pairs.extend(more.iter().map(|(expression, value)| ((*expression).to_owned(), *value)));
    agree(&pairs);
}

#[test]
fn a_request_is_read_as_the_header_lays_it_out() {
    let mut bytes = [0; protocol::REQUEST_BYTES];
    bytes[8..16].copy_from_slice(&0x0102_0304_0506_u64.to_le_bytes());
    bytes[16..20].copy_from_slice(&8_u32.to_le_bytes());
    bytes[20..22].copy_from_slice(&31_u16.to_le_bytes());
    (bytes[22], bytes[23]) = (1, 1);
    bytes[32..36].copy_from_slice(b"fio\0");
    let request = protocol::Request::read(&bytes).unwrap();
    assert_eq!((request.request.sector, request.request.sectors, request.tag), (0x0102_0304_0506, 8, 31));
    assert!(request.request.fua && !request.zeroes);
    assert_eq!(request.process(), b"fio");
    bytes[22] = 9;
    assert_eq!(protocol::Request::read(&bytes), None, "an unknown operation");
}
