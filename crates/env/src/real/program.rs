//! The pages of the program itself that are in memory.

/// Gives back the pages of the running program and its libraries that nobody can write to: code and constants. The
/// kernel maps them 64 KiB at a time around each one that is used, and keeps what only the start needed. They stay in
/// the page cache; what is used again is mapped again, without a read of the disk as long as the cache has it. Gives
/// the bytes that may have gone; 0 where the system cannot do it.
pub fn give_back_program_pages() -> usize {
    #[cfg(target_os = "linux")]
    let given_back = linux::give_back();
    #[cfg(not(target_os = "linux"))]
    let given_back = 0;
    given_back
}

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::{c_int, c_void};
    use std::fs;
    use std::ops::Range;

    pub(super) fn give_back() -> usize {
        let Ok(maps) = fs::read_to_string("/proc/self/smaps") else { return 0 };
        let changed = changed_mappings(&maps);
        let page = page_bytes();
        let mut given_back = 0;
        for_each_read_only_segment(&mut |segment| {
            // Only whole pages: other data may share the first and the last one.
            let (start, end) = (segment.start.next_multiple_of(page), segment.end / page * page);
            let is_changed = changed.iter().any(|mapping| mapping.start < end && start < mapping.end);
            if start >= end || is_changed {
                return;
            }
            // SAFETY: the range lies in a segment that the loader mapped from a file, privately and not writable, and
            // that stays mapped at least until this function returns. No page of it was ever changed: of the ones that
            // were, the kernel counts copies, and those mappings were left out. So whoever reads from it finds the same
            // bytes as before, from the file.
            if unsafe { libc::madvise(start as *mut c_void, end - start, libc::MADV_DONTNEED) } == 0 {
                given_back += end - start;
            }
        });
        given_back
    }

    fn page_bytes() -> usize {
        // SAFETY: a question without arguments in memory.
        usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(0).max(4096)
    }

    type Visit<'v> = &'v mut dyn FnMut(Range<usize>);

    /// Where the program and its libraries have what they never write to. The loader unmaps nothing until `visit`
    /// returns.
    fn for_each_read_only_segment(mut visit: Visit<'_>) {
        // SAFETY: `visit_object` keeps to what the call demands of it, and `visit` lives as long as the call.
        unsafe { libc::dl_iterate_phdr(Some(visit_object), (&raw mut visit).cast()) };
    }

    unsafe extern "C" fn visit_object(object: *mut libc::dl_phdr_info, _bytes: usize, visit: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid object, and what `for_each_read_only_segment` gave it.
        let (object, visit) = unsafe { (&*object, &mut *visit.cast::<Visit<'_>>()) };
        if object.dlpi_phdr.is_null() {
            return 0;
        }
        // SAFETY: the table of a valid object has as many entries as it says, and lives as long as the object.
        let headers = unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
        for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W == 0)
        {
            let start = (object.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
            visit(start..start.saturating_add(header.p_memsz as usize));
        }
        0
    }

    /// The mappings that hold anything but clean pages of their file: copies that were changed (a debugger does that),
    /// or no file at all.
    fn changed_mappings(maps: &str) -> Vec<Range<usize>> {
        let mut changed = Vec::new();
        let mut current = None;
        for line in maps.lines() {
            if let Some(range) = range_of(line) {
                current = Some(range);
            } else if let Some(count) = line.strip_prefix("Anonymous:")
                && count.trim() != "0 kB"
            {
                changed.extend(current.clone());
            }
        }
        changed
    }

    /// `7f38c138a000-7f38c13b0000 r--p …`
    fn range_of(line: &str) -> Option<Range<usize>> {
        let (start, end) = line.split_once(' ')?.0.split_once('-')?;
        Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// Something in the read-only data of this program.
        static CONSTANTS: [u64; 4096] = {
            let mut numbers = [0; 4096];
            let mut place = 0;
            while place < numbers.len() {
                numbers[place] = place as u64 * 0x9e37_79b9;
                place += 1;
            }
            numbers
        };

        fn resident_kib() -> usize {
            let status = fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find(|line| line.starts_with("RssFile:")).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        }

        #[test]
        fn what_was_given_back_reads_as_before() {
            let sum = || std::hint::black_box(&CONSTANTS).iter().fold(0u64, |sum, number| sum.rotate_left(1) ^ number);
            let (before, resident) = (sum(), resident_kib());
            assert!(give_back() > 0);
            assert!(resident_kib() < resident);
            assert_eq!(sum(), before);
        }

        #[test]
        fn code_and_constants_are_given_back_and_nothing_that_is_written() {
            let mut segments = Vec::new();
            for_each_read_only_segment(&mut |segment| segments.push(segment));
            let within = |address: usize| segments.iter().any(|segment| segment.contains(&address));
            assert!(within((&raw const CONSTANTS) as usize) && within(give_back as *const () as usize));
            let (local, heap) = (0u8, Box::new(0u8));
            static WRITTEN: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);
            for address in [&raw const local as usize, &raw const *heap as usize, &raw const WRITTEN as usize] {
                assert!(!within(address));
            }
        }

        #[test]
        fn a_mapping_with_changed_pages_is_left_alone() {
            let maps = "1000-3000 r-xp 00000000 00:00 0 /bin/a\nRss:  8 kB\nAnonymous:    4 kB\n\
                        3000-4000 r--p 00002000 00:00 0 /bin/a\nRss:  4 kB\nAnonymous:    0 kB\n";
            assert_eq!(changed_mappings(maps), vec![Range { start: 0x1000, end: 0x3000 }]);
            assert!(changed_mappings(&fs::read_to_string("/proc/self/smaps").unwrap()).iter().any(|mapping| {
                let local = 0u8;
                mapping.contains(&(&raw const local as usize))
            }));
        }
    }
}
