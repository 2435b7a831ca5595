//! Zigzag varints: 7 bits a byte, lowest first; at most 5 bytes for an int32 and 10 for an int64.
//!
//! As Kafka does, bits beyond the type's width in the last byte are dropped, not refused.

/// Why a varint could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VarintError {
    /// The bytes end within it.
    Truncated,
    /// The fifth (tenth) byte still says that more follows.
    TooLong,
}

pub(crate) const VARINT_SIZE_MAX: usize = 5;
pub(crate) const VARLONG_SIZE_MAX: usize = 10;

/// Reads an int32 at the head of `bytes`; gives it and its size.
#[inline]
pub(crate) fn read_varint(bytes: &[u8]) -> Result<(i32, usize), VarintError> {
    if let Some(first) = bytes.first().filter(|b| **b < 0x80) {
        return Ok((unzigzag32(u32::from(*first)), 1));
    }
    let mut value = 0u32;
    for (i, byte) in bytes.iter().take(VARINT_SIZE_MAX).enumerate() {
        value |= u32::from(byte & 0x7f) << (7 * i);
        if *byte < 0x80 {
            return Ok((unzigzag32(value), i + 1));
        }
    }
    Err(if bytes.len() < VARINT_SIZE_MAX { VarintError::Truncated } else { VarintError::TooLong })
}

/// Reads an int64 at the head of `bytes`; gives it and its size.
#[inline]
pub(crate) fn read_varlong(bytes: &[u8]) -> Result<(i64, usize), VarintError> {
    if let Some(first) = bytes.first().filter(|b| **b < 0x80) {
        return Ok((unzigzag64(u64::from(*first)), 1));
    }
    let mut value = 0u64;
    for (i, byte) in bytes.iter().take(VARLONG_SIZE_MAX).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if *byte < 0x80 {
            return Ok((unzigzag64(value), i + 1));
        }
    }
    Err(if bytes.len() < VARLONG_SIZE_MAX { VarintError::Truncated } else { VarintError::TooLong })
}

pub(crate) fn write_varint(out: &mut Vec<u8>, value: i32) {
    write_unsigned(out, u64::from(((value << 1) ^ (value >> 31)) as u32));
}

pub(crate) fn write_varlong(out: &mut Vec<u8>, value: i64) {
    write_unsigned(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Bytes that `value` takes.
pub(crate) fn varint_size(value: i32) -> usize {
    unsigned_size(u64::from(((value << 1) ^ (value >> 31)) as u32))
}

/// Bytes that `value` takes.
pub(crate) fn varlong_size(value: i64) -> usize {
    unsigned_size(((value << 1) ^ (value >> 63)) as u64)
}

fn write_unsigned(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn unsigned_size(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

fn unzigzag32(value: u32) -> i32 {
    (value >> 1) as i32 ^ -((value & 1) as i32)
}

fn unzigzag64(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_number_round_trips(short: i32, long: i64) {
            let mut out = Vec::new();
            write_varint(&mut out, short);
            prop_assert_eq!(out.len(), varint_size(short));
            prop_assert_eq!(read_varint(&out), Ok((short, out.len())));
            out.clear();
            write_varlong(&mut out, long);
            prop_assert_eq!(out.len(), varlong_size(long));
            prop_assert_eq!(read_varlong(&out), Ok((long, out.len())));
        }
    }

    #[test]
    fn encodings_are_protobuf_s_zigzag() {
        for (value, bytes) in [
            (0, &[0u8][..]),
            (-1, &[1]),
            (1, &[2]),
            (63, &[0x7e]),
            (-64, &[0x7f]),
            (64, &[0x80, 1]),
            (i32::MAX, &[0xfe, 0xff, 0xff, 0xff, 0x0f]),
            (i32::MIN, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        ] {
            let mut out = Vec::new();
            write_varint(&mut out, value);
            assert_eq!(out, bytes);
            assert_eq!(read_varint(bytes), Ok((value, bytes.len())));
        }
    }

    #[test]
    fn endless_and_cut_numbers_are_refused() {
        assert_eq!(read_varint(&[0x80; 5]), Err(VarintError::TooLong));
        assert_eq!(read_varint(&[0x80; 4]), Err(VarintError::Truncated));
        assert_eq!(read_varint(&[]), Err(VarintError::Truncated));
        assert_eq!(read_varlong(&[0xff; 11]), Err(VarintError::TooLong));
        assert_eq!(read_varlong(&[0xff; 9]), Err(VarintError::Truncated));
    }
}
