//! A time as the digits of a file name: `yyyyMMddHHmmssSSS`, UTC.

/// The digits as a number. Times before 1970 count as 1970, later than the year 9999 as its end.
pub(crate) fn digits(time_ms: i64) -> u64 {
    const LAST_MS: i64 = 253_402_300_799_999;
    let time_ms = time_ms.clamp(0, LAST_MS) as u64;
    let (days, of_day) = (time_ms / 86_400_000, time_ms % 86_400_000);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1000 % 60);
    [(month, 100), (day, 100), (hour, 100), (minute, 100), (second, 100), (of_day % 1000, 1000)]
        .iter()
        .fold(year, |number, (part, shift)| number * shift + part)
}

/// Year, month and day of a number of days after 1970-01-01.
fn date(mut days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    // 400 years have 146,097 days.
    let mut year = 1970 + days / 146_097 * 400;
    days %= 146_097;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::digits;

    #[test]
    fn known_times() {
        assert_eq!(digits(0), 19_700_101_000_000_000);
        assert_eq!(digits(951_782_400_123), 20_000_229_000_000_123);
        assert_eq!(digits(1_700_000_000_000), 20_231_114_221_320_000);
        assert_eq!(digits(i64::MAX), 99_991_231_235_959_999);
        assert_eq!(digits(-5), 19_700_101_000_000_000);
    }
}
