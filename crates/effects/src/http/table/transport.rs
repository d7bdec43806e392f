//! What it means that no answer came. The only file that looks into the errors of reqwest, hyper and h2.
//!
//! Facts about the three were read in their sources and run against sockets: reqwest 0.13.5, hyper 1.12, h2 0.4.20.

use std::error::Error;
use std::io::{self, ErrorKind};

use earmark_claim::{ErrorClass, Failure, failure::chain};

/// What a failed call means.
pub(in crate::http) fn of_error(error: reqwest::Error) -> Failure {
    // The URL may hold personal data, and is on file with the claim.
    let error = error.without_url();
    let (failure, why) = judge(&error);
    failure.because(format!("{why}: {}", chain(&error)))
}

fn judge(error: &reqwest::Error) -> (Failure, &'static str) {
    if error.is_builder() {
        return (Failure::not_sent(ErrorClass::REQUEST_UNREADABLE), "the request could not be built");
    }
    // Before the timeout: a connect timeout is both, and no byte of the request had left.
    if error.is_connect() {
        return connect_error(error);
    }
    if let Some(failure) = sources(error).find_map(http2_not_processed) {
        return failure;
    }
    // hyper hands the request back, or drops it unread, before it was given to a connection; nothing was written.
    // Not so `is_incomplete_message`, which means that the *answer* was incomplete: the request may have been read.
    if sources(error).filter_map(|e| e.downcast_ref::<hyper::Error>()).any(hyper::Error::is_canceled) {
        return (
            Failure::not_sent("connection_lost"),
            "the connection was lost before the request was written",
        );
    }
    if error.is_timeout() {
        return (
            Failure::unknown(ErrorClass::TIMEOUT),
            "no answer in time; the request may have been acted upon",
        );
    }
    (Failure::unknown("no_answer"), "no answer; the request may have been acted upon")
}

/// Connecting failed: DNS, TCP, TLS, the proxy's tunnel. Not a byte of the request has left.
fn connect_error(error: &reqwest::Error) -> (Failure, &'static str) {
    if error.is_dns() {
        return (Failure::not_sent("dns"), "the host's name could not be resolved");
    }
    if error.is_timeout() {
        return (Failure::not_sent("connect_timeout"), "no connection in time");
    }
    if is_login_failure(error) {
        return (
            Failure::not_sent(ErrorClass::OPERATOR),
            "the connection came about, but TLS or the proxy's login failed; check certificates and the proxy",
        );
    }
    (Failure::not_sent("connect"), "no connection")
}

/// Whether a connection came about and TLS or the proxy's login failed on it: what is left when the network's own
/// errors are taken away. TLS libraries say "invalid data" or "unexpected end"; the type behind it is not ours to name,
/// since the binary chooses the library, and hyper-util's type for the tunnel is private.
fn is_login_failure(error: &reqwest::Error) -> bool {
    let network = |e: &io::Error| {
        matches!(
            e.kind(),
            ErrorKind::ConnectionRefused
                | ErrorKind::ConnectionReset
                | ErrorKind::ConnectionAborted
                | ErrorKind::HostUnreachable
                | ErrorKind::NetworkUnreachable
                | ErrorKind::NetworkDown
                | ErrorKind::AddrNotAvailable
                | ErrorKind::NotConnected
                | ErrorKind::BrokenPipe
                | ErrorKind::TimedOut
        )
    };
    !sources(error).filter_map(|e| e.downcast_ref::<io::Error>()).any(network)
}

/// RFC 9113 §8.7: a stream reset with REFUSED_STREAM, and one above the last that a GOAWAY names, was not processed.
/// h2 reports a GOAWAY only to streams above that last one; those below get a broken pipe.
fn http2_not_processed(error: &(dyn Error + 'static)) -> Option<(Failure, &'static str)> {
    let error = error.downcast_ref::<h2::Error>().filter(|e| e.is_remote())?;
    if error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM) {
        return Some((
            Failure::not_sent("refused_stream"),
            "HTTP/2 REFUSED_STREAM: not processed (RFC 9113 §8.7)",
        ));
    }
    error.is_go_away().then(|| {
        (Failure::not_sent("go_away"), "HTTP/2 GOAWAY below our stream: not processed (RFC 9113 §8.7)")
    })
}

fn sources<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |&e| e.source())
}
