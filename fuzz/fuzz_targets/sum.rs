#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fedbo_fuzzing::sum(bytes));
