#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| nandlab_fuzz::jffs2::jffs2(data));
