//! The short handle of a claim.

use std::fmt;
use std::str::FromStr;

use super::ClaimKey;
use super::derive::{Namespace, digest_of};

/// A second handle of the claim: 16 characters, digits and upper-case letters without `I L O U`, the last one a
/// check character.
///
/// It exists because no provider's statement carries the idempotency key, because bank formats have fields of 16
/// characters (MT940 `:61:`), and because people read it out on the telephone. 15 characters of 5 bits are 75 bits of
/// SHA-256: among a thousand million claims the odds of one clash are about one in 10^5; look-ups by reference
/// return every claim that bears it.
///
/// The check character is ISO/IEC 7064 MOD 37,36: it finds every single wrong character and nearly every swap of
/// two neighbours.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(transparent)]
pub struct Reference(String);

/// Crockford's alphabet of 32.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const BODY: usize = 15;

impl Reference {
    /// The reference of a claim: the same in every process, for ever.
    pub fn derive(namespace: &Namespace, key: &ClaimKey) -> Self {
        let digest = digest_of("earmark/reference/1", namespace, key);
        let mut bits = u128::from_be_bytes(digest[..16].try_into().unwrap_or_default());
        let mut text = String::with_capacity(BODY + 1);
        for _ in 0..BODY {
            bits = bits.rotate_left(5);
            text.push(char::from(ALPHABET[(bits & 31) as usize]));
        }
        text.push(check_character(&text));
        Self(text)
    }

    /// A reference read back from the store.
    pub(crate) fn stored(value: String) -> Self {
        Self(value)
    }

    /// The 16 characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reference({})", self.0)
    }
}

/// Why a text is not a reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadReference {
    /// Not 16 characters once spaces and hyphens are gone.
    #[error("a reference has 16 characters, this has {0}")]
    Length(usize),
    /// A character that no reference holds.
    #[error("{0:?} does not occur in a reference")]
    Character(char),
    /// The check character does not fit: a typing or hearing error.
    #[error("the check character does not fit: one character is wrong or two were swapped")]
    Check,
}

/// As people type it: case, spaces and hyphens do not matter, `I` and `L` are read as 1, `O` as 0 (the check character may
/// be any letter or digit and is taken as it is).
impl FromStr for Reference {
    type Err = BadReference;

    fn from_str(s: &str) -> Result<Self, BadReference> {
        let typed: Vec<char> =
            s.chars().filter(|c| !matches!(c, ' ' | '-')).map(|c| c.to_ascii_uppercase()).collect();
        if typed.len() != BODY + 1 {
            return Err(BadReference::Length(typed.len()));
        }
        let body = typed[..BODY]
            .iter()
            .map(|&c| match c {
                'I' | 'L' => Ok('1'),
                'O' => Ok('0'),
                c if u8::try_from(c).is_ok_and(|b| ALPHABET.contains(&b)) => Ok(c),
                c => Err(BadReference::Character(c)),
            })
            .collect::<Result<String, _>>()?;
        if typed[BODY] != check_character(&body) {
            return Err(BadReference::Check);
        }
        Ok(Self(format!("{body}{}", typed[BODY])))
    }
}

/// ISO/IEC 7064 MOD 37,36 over `0-9A-Z`.
fn check_character(body: &str) -> char {
    let p = body.chars().fold(36u32, |p, c| {
        let s = (p + c.to_digit(36).unwrap_or(0)) % 36;
        (if s == 0 { 36 } else { s }) * 2 % 37
    });
    char::from_digit((37 - p) % 36, 36).unwrap_or('0').to_ascii_uppercase()
}
