//! What must not stand in a frozen request: secrets, since it lies in a database for months and is shown on reports;
//! and headers that belong to the client.

use url::Url;

/// Names that carry secrets, in lower case; beside them everything that [`is_secret_header`] recognises by a part.
const SECRET_HEADERS: [&str; 8] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
    "apikey",
    "x-auth",
    "x-auth-key",
    "x-amz-security-token",
];
const SECRET_PARTS: [&str; 7] =
    ["api-key", "api_key", "apikey", "secret", "password", "access-key", "credential"];

/// Query parameters that carry secrets. `key` and `sig` are left out: they mean too many other things.
const SECRET_PARAMETERS: [&str; 10] = [
    "access_token",
    "api_key",
    "apikey",
    "api-key",
    "auth_token",
    "client_secret",
    "secret",
    "password",
    "passwd",
    "token",
];

/// Headers that the client sets from what it does: hop-by-hop (RFC 9110 §7.6.1), framing (RFC 9112 §6), the target
/// (a Host other than the URL's would walk past the allowed origins), `Expect` (a 100 would be one more answer) and
/// `Accept-Encoding` (answers are kept and hashed as they come).
const MANAGED_HEADERS: [&str; 12] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "accept-encoding",
];

pub(super) fn is_secret_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_HEADERS.contains(&name.as_str())
        || name.ends_with("-token")
        || name.ends_with("_token")
        || name == "token"
        || SECRET_PARTS.iter().any(|part| name.contains(part))
}

/// What is wrong with the headers, whoever wrote them: this holds for a frozen request read back, too.
pub(super) fn header_faults(headers: &[(String, String)]) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, value) in headers {
        if http::HeaderName::try_from(name.as_str()).is_err() {
            faults.push(format!("{name:?} is not a header name: letters, digits and \"-\""));
        }
        if MANAGED_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
            faults.push(format!("the header {name} belongs to the client: leave it out"));
        }
        if http::HeaderValue::from_str(value).is_err() {
            faults.push(format!(
                "the value of the header {name} holds what a header cannot carry: use visible ASCII"
            ));
        }
    }
    faults
}

/// Headers that carry secrets, each with what to do instead. The value is not repeated.
pub(super) fn secret_faults(headers: &[(String, String)]) -> Vec<String> {
    let secret = headers.iter().filter(|(name, _)| is_secret_header(name));
    secret
        .map(|(name, _)| {
            format!(
                "the header {name} carries a secret, and a frozen request is stored and shown: \
                 configure a credential, and name it with .credential(\"…\")"
            )
        })
        .collect()
}

/// The URL, if a request may go there. Everything wrong with it otherwise.
pub(super) fn url(text: &str) -> Result<Url, Vec<String>> {
    let url = Url::parse(text)
        .map_err(|e| vec![format!("the URL cannot be read ({e}): write it whole, https://…")])?;
    let mut faults = Vec::new();
    if !matches!(url.scheme(), "https" | "http") {
        faults.push(format!("the URL's scheme is {:?}: https, or http", url.scheme()));
    }
    if url.host_str().is_none_or(str::is_empty) {
        faults.push("the URL names no host".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        faults.push(
            "the URL holds a user or a password: configure a credential of scheme \"basic\"".to_owned(),
        );
    }
    if url.fragment().is_some() {
        faults.push("the URL has a fragment (#…), which is never sent: leave it out".to_owned());
    }
    if faults.is_empty() { Ok(url) } else { Err(faults) }
}

/// Refuses placeholders, and every other brace, where a template says which server is called: what a claim or a
/// provider brings must not choose it.
pub(super) fn fixed_origin(template: &str) -> Result<(), Vec<String>> {
    // A parser of URLs reads "https:/x" and "https:///x" as the host x, so the form is required to the letter.
    let host = ["https://", "http://"].into_iter().find_map(|scheme| template.strip_prefix(scheme));
    let Some(host) = host.filter(|host| !host.starts_with(['/', '\\'])) else {
        return Err(vec![
            "the URL does not begin with https://host or http://host: write it whole".to_owned(),
        ]);
    };
    let end = host.find(['/', '\\', '?', '#']).unwrap_or(host.len());
    if host[..end].contains('{') {
        return Err(vec!["a placeholder stands in the URL's host: write the host out".to_owned()]);
    }
    Ok(())
}

/// Query parameters that carry secrets, each with what to do instead.
pub(super) fn secret_parameter_faults(url: &Url) -> Vec<String> {
    let names = url.query_pairs().map(|(name, _)| name.to_ascii_lowercase());
    names
        .filter(|name| SECRET_PARAMETERS.contains(&name.as_str()))
        .map(|name| {
            format!(
                "the query parameter {name} looks like a secret, and a frozen request is stored and shown: \
                 send it as a header, by a credential"
            )
        })
        .collect()
}

/// Scheme, host and port, as allowed origins are compared: `https://api.example.com`, the scheme's own port left out.
pub(crate) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_recognised_whatever_their_case() {
        for name in
            ["Authorization", "COOKIE", "x-api-key", "Api-Key", "X-Vault-Token", "X-Shared-Secret", "token"]
        {
            assert!(is_secret_header(name), "{name}");
        }
        for name in ["Content-Type", "Idempotency-Key", "X-Tokens-Left", "Stripe-Account", "Accept"] {
            assert!(!is_secret_header(name), "{name}");
        }
        let faults = secret_faults(&[("Authorization".into(), "Bearer sk_live".into())]);
        assert!(faults[0].contains("Authorization") && faults[0].contains("credential"));
        assert!(!faults[0].contains("sk_live"));
    }

    #[test]
    fn urls_that_hide_something_are_refused() {
        for bad in
            ["ftp://h/", "/relative", "https://u:p@h/", "https://u@h/", "https://h/#f", "http://", "data:x"]
        {
            assert!(url(bad).is_err(), "{bad}");
        }
        assert!(url("https://h:8443/a?b=c").is_ok());
    }

    #[test]
    fn no_placeholder_chooses_the_server() {
        for bad in
            ["https://{r}/", "https://h{r}.x/", "https:/{r}/", "https:///{r}/", "https://h:{r}", "{r}", ""]
        {
            assert!(fixed_origin(bad).is_err(), "{bad}");
        }
        assert!(fixed_origin("https://h/{r}?{r}").is_ok() && fixed_origin("http://h?{r}").is_ok());
    }
}
