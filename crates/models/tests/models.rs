//! Each model as it is, and with the fault that it must find.

use mainstem_models::checks::{self, Use};

#[test]
fn commits_release_their_waiters() {
    checks::commits_release_their_waiters(Use::Right);
}

#[test]
#[should_panic(expected = "a waiter was not released")]
fn a_high_watermark_that_is_read_too_early_is_found() {
    checks::commits_release_their_waiters(Use::Faulty);
}

#[test]
fn an_end_of_leadership_releases_its_waiters() {
    checks::an_end_of_leadership_releases_its_waiters(Use::Right);
}

#[test]
#[should_panic(expected = "a waiter was not released")]
fn a_leadership_that_is_asked_for_too_early_is_found() {
    checks::an_end_of_leadership_releases_its_waiters(Use::Faulty);
}

#[test]
fn a_fetch_misses_no_append() {
    checks::a_fetch_misses_no_append(Use::Right);
}

#[test]
#[should_panic(expected = "the fetch waits for what is there")]
fn a_look_before_the_wait_is_announced_is_found() {
    checks::a_fetch_misses_no_append(Use::Faulty);
}

#[test]
fn every_request_is_synced() {
    checks::every_request_is_synced(Use::Right);
}

#[test]
#[should_panic(expected = "a request was forgotten")]
fn a_flusher_that_forgets_requests_is_found() {
    checks::every_request_is_synced(Use::Faulty);
}

#[test]
fn a_look_is_not_mixed() {
    checks::a_look_is_not_mixed(Use::Right);
}

#[test]
#[should_panic(expected = "half old, half new")]
fn a_number_that_is_renewed_too_late_is_found() {
    checks::a_look_is_not_mixed(Use::Faulty);
}
