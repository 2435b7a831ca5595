//! A place in partitions, as options name it: `--from`, `--before`, `--at`.

use jiff::{SpanRelativeTo, Timestamp};
use mainstem_client::{Offset, TimestampMs};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    Beginning,
    End,
    Offset(Offset),
    /// The first record of that time or later.
    Time(TimestampMs),
}

impl Position {
    pub fn parse(text: &str) -> Result<Position, String> {
        Position::parse_at(text, Timestamp::now())
    }

    fn parse_at(text: &str, now: Timestamp) -> Result<Position, String> {
        if text == "beginning" {
            return Ok(Position::Beginning);
        }
        if text == "end" {
            return Ok(Position::End);
        }
        if let Ok(offset) = text.parse::<i64>() {
            return match offset {
                0.. => Ok(Position::Offset(Offset(offset))),
                _ => Err(format!("{text} is not an offset; a time ago needs a unit, for example {text}m")),
            };
        }
        let time = text.parse::<Timestamp>().ok().or_else(|| ago(text, now));
        time.map(|time| Position::Time(TimestampMs(time.as_millisecond()))).ok_or_else(|| {
            "give beginning, end, an offset, a time with its zone (2026-03-01T08:00:00Z), or a time ago (-1h)"
                .to_owned()
        })
    }
}

/// A span before now. Days have 24 hours: what is meant is a length of time, not a date.
fn ago(text: &str, now: Timestamp) -> Option<Timestamp> {
    let span = text.parse::<jiff::Span>().ok().filter(|span| span.is_negative())?;
    let length = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    now.checked_add(length).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_a_word_an_offset_a_time_or_a_time_ago() {
        let now: Timestamp = "2026-03-01T08:00:00Z".parse().unwrap();
        let at = |text: &str| Position::Time(TimestampMs(text.parse::<Timestamp>().unwrap().as_millisecond()));
        for (text, start) in [
            ("beginning", Position::Beginning),
            ("end", Position::End),
            ("0", Position::Offset(Offset(0))),
            ("1500", Position::Offset(Offset(1500))),
            ("2026-03-01T08:00:00Z", at("2026-03-01T08:00:00Z")),
            ("2026-03-01T08:00:00.5+02:00", at("2026-03-01T06:00:00.5Z")),
            ("-1h", at("2026-03-01T07:00:00Z")),
            ("-1h30m", at("2026-03-01T06:30:00Z")),
            ("-2d", at("2026-02-27T08:00:00Z")),
            ("90 seconds ago", at("2026-03-01T07:58:30Z")),
        ] {
            assert_eq!(Position::parse_at(text, now), Ok(start), "{text}");
        }
        for wrong in ["", "start", "-5", "1h", "2026-03-01", "-", "-1y", "99999999999999999999"] {
            assert!(Position::parse_at(wrong, now).is_err(), "{wrong}");
        }
    }
}
