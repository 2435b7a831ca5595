use proptest::prelude::*;

use super::*;

fn packed(codec: Codec, input: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    compress(codec, None, input, &mut out).unwrap();
    out
}

fn unpacked(codec: Codec, input: &[u8], limit: usize) -> Result<Vec<u8>, DecompressError> {
    let mut out = Vec::new();
    decompress(codec, input, limit, &mut out).map(|()| out)
}

/// Bytes that compress a little, over several blocks of every codec.
fn sample(size: usize) -> Vec<u8> {
    let mut state = 1u32;
    (0..size)
        .map(|i| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if i % 64 < 40 { (i / 64) as u8 } else { (state >> 24) as u8 }
        })
        .collect()
}

#[test]
fn names_and_numbers_are_kafka_s() {
    for (id, codec) in Codec::ALL.into_iter().enumerate() {
        assert_eq!(Codec::from_id(id as i8), Some(codec));
        assert_eq!(codec.name().parse(), Ok(codec));
    }
    assert_eq!(Codec::from_id(5), None);
    assert_eq!("brotli".parse::<Codec>(), Err(UnknownCodecName { name: "brotli".to_owned() }));
}

#[test]
fn every_size_around_a_block_comes_back() {
    let sizes = [0, 1, 100, 32_767, 32_768, 32_769, 65_535, 65_536, 65_537, 131_072, 300_000];
    for codec in Codec::ALL {
        for size in sizes {
            let input = sample(size);
            assert_eq!(unpacked(codec, &packed(codec, &input), size), Ok(input), "{codec} {size}");
        }
    }
}

#[test]
fn levels_beyond_the_range_mean_the_nearest() {
    let input = sample(5_000);
    for codec in Codec::ALL {
        for level in [i32::MIN, -1, 0, 1, 9, 22, i32::MAX] {
            let mut out = Vec::new();
            compress(codec, Some(level), &input, &mut out).unwrap();
            assert_eq!(unpacked(codec, &out, input.len()).as_ref(), Ok(&input), "{codec} level {level}");
        }
    }
}

#[test]
fn one_byte_above_the_limit_is_refused() {
    for codec in Codec::ALL {
        for size in [1, 1_000, 70_000, 200_000] {
            let data = packed(codec, &sample(size));
            assert_eq!(unpacked(codec, &data, size - 1), Err(DecompressError::Limit { codec, limit: size - 1 }));
            assert!(unpacked(codec, &data, size).is_ok(), "{codec} {size}");
        }
    }
}

#[test]
fn a_bomb_costs_no_more_than_the_limit() {
    let zeros = vec![0; 64 << 20];
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let bomb = packed(codec, &zeros);
        let mut out = Vec::new();
        let result = decompress(codec, &bomb, 1_000_000, &mut out);
        assert_eq!(result, Err(DecompressError::Limit { codec, limit: 1_000_000 }));
        assert!(out.len() <= 1_000_000 && out.capacity() <= 4_000_000, "{codec}: {}", out.capacity());
    }
}

#[test]
fn cut_data_is_damaged_data() {
    for codec in [Codec::Gzip, Codec::Lz4, Codec::Zstd] {
        let data = packed(codec, &sample(100_000));
        for kept in [1, 5, 20, data.len() / 2, data.len() - 1] {
            let result = unpacked(codec, &data[..kept], 1 << 20);
            assert!(matches!(result, Err(DecompressError::Corrupt { .. })), "{codec} {kept}");
        }
    }
    let data = packed(Codec::Snappy, &sample(100_000));
    for kept in [12, 18, 40, data.len() - 1] {
        assert!(unpacked(Codec::Snappy, &data[..kept], 1 << 20).is_err(), "{kept}");
    }
}

#[test]
fn gzip_members_in_a_row_are_one_stream() {
    let data = [packed(Codec::Gzip, b"first "), packed(Codec::Gzip, b"second")].concat();
    assert_eq!(unpacked(Codec::Gzip, &data, 100), Ok(b"first second".to_vec()));
}

#[test]
fn zstd_frames_in_a_row_are_one_stream() {
    let data = [packed(Codec::Zstd, b"first "), packed(Codec::Zstd, b"second")].concat();
    assert_eq!(unpacked(Codec::Zstd, &data, 100), Ok(b"first second".to_vec()));
}

#[test]
fn raw_snappy_is_read_too() {
    let input = sample(100_000);
    let raw = snap::raw::Encoder::new().compress_vec(&input).unwrap();
    assert_eq!(unpacked(Codec::Snappy, &raw, input.len()), Ok(input.clone()));
    assert_eq!(
        unpacked(Codec::Snappy, &raw, input.len() - 1),
        Err(DecompressError::Limit { codec: Codec::Snappy, limit: input.len() - 1 })
    );
}

#[test]
fn xerial_snappy_of_either_byte_order_is_read() {
    let block = snap::raw::Encoder::new().compress_vec(b"hello hello hello").unwrap();
    let magic = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
    let length = block.len() as u32;
    let big = [&magic[..], &[0, 0, 0, 1, 0, 0, 0, 1], &length.to_be_bytes(), &block].concat();
    let mixed = [&magic[..], &[1, 0, 0, 0, 1, 0, 0, 0], &length.to_be_bytes(), &block].concat();
    let little = [&magic[..], &[1, 0, 0, 0, 1, 0, 0, 0], &length.to_le_bytes(), &block].concat();
    for data in [&big, &mixed, &little] {
        assert_eq!(unpacked(Codec::Snappy, data, 100), Ok(b"hello hello hello".to_vec()));
    }
    let glued = [&big[..], &mixed].concat();
    assert_eq!(unpacked(Codec::Snappy, &glued, 100), Ok(b"hello hello hellohello hello hello".to_vec()));
}

#[test]
fn a_claimed_snappy_length_reserves_nothing() {
    // The varint says 4 GiB − 1, and two bytes follow.
    let lie = [0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0];
    assert!(matches!(unpacked(Codec::Snappy, &lie, usize::MAX), Err(DecompressError::Corrupt { .. })));
}

#[test]
fn linked_and_checked_lz4_frames_are_read() {
    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
    use std::io::Write;

    let input = sample(900_000);
    for mode in [BlockMode::Independent, BlockMode::Linked] {
        for size in [BlockSize::Max64KB, BlockSize::Max256KB, BlockSize::Max1MB, BlockSize::Max4MB] {
            for checks in [false, true] {
                let info = FrameInfo::new()
                    .block_mode(mode)
                    .block_size(size)
                    .block_checksums(checks)
                    .content_checksum(checks)
                    .content_size(checks.then_some(input.len() as u64));
                let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
                encoder.write_all(&input).unwrap();
                let data = encoder.finish().unwrap();
                assert_eq!(unpacked(Codec::Lz4, &data, input.len()).as_ref(), Ok(&input), "{mode:?} {size:?} {checks}");
                let twice = [&data[..], &data].concat();
                assert_eq!(unpacked(Codec::Lz4, &twice, 1 << 21).map(|out| out.len()), Ok(2 * input.len()));
                if checks {
                    let mut damaged = data.clone();
                    let middle = damaged.len() / 2;
                    damaged[middle] ^= 1;
                    assert!(unpacked(Codec::Lz4, &damaged, input.len()).is_err());
                }
            }
        }
    }
}

#[test]
fn a_wrong_lz4_header_checksum_is_refused() {
    let mut data = packed(Codec::Lz4, b"hello");
    data[6] ^= 1;
    assert!(matches!(unpacked(Codec::Lz4, &data, 100), Err(DecompressError::Corrupt { .. })));
}

#[test]
fn lz4_s_own_reader_reads_what_is_written() {
    use std::io::Read;
    let input = sample(300_000);
    let mut out = Vec::new();
    lz4_flex::frame::FrameDecoder::new(&packed(Codec::Lz4, &input)[..]).read_to_end(&mut out).unwrap();
    assert_eq!(out, input);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_come_back(input in proptest::collection::vec(any::<u8>(), 0..5_000), id in 0i8..5) {
        let codec = Codec::from_id(id).unwrap();
        prop_assert_eq!(unpacked(codec, &packed(codec, &input), input.len()), Ok(input));
    }

    #[test]
    fn damage_never_panics_nor_passes_the_limit(
        size in 0usize..3_000, at in any::<prop::sample::Index>(), bits in 1u8.., id in 1i8..5,
    ) {
        let codec = Codec::from_id(id).unwrap();
        let mut data = packed(codec, &sample(size));
        let at = at.index(data.len());
        data[at] ^= bits;
        if let Ok(out) = unpacked(codec, &data, 10_000) {
            prop_assert!(out.len() <= 10_000);
        }
    }

    #[test]
    fn noise_never_panics(data in proptest::collection::vec(any::<u8>(), 0..500), id in 1i8..5) {
        let _ = unpacked(Codec::from_id(id).unwrap(), &data, 100_000);
    }
}
