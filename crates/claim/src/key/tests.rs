use super::*;

fn namespace() -> Namespace {
    Namespace::new("test").expect("a namespace")
}

/// The vectors are the contract: a release that changes one would charge people twice. They were computed
/// with a separate program (Python's hashlib) from the description in `IdempotencyKey::derive`.
#[test]
fn the_idempotency_key_and_reference_are_fixed_for_ever() {
    for (tenant, consumer, id, key, reference) in VECTORS {
        let claim = ClaimKey::in_tenant(tenant, consumer, id).expect("a key");
        assert_eq!(IdempotencyKey::derive(&namespace(), &claim).as_str(), key, "{claim}");
        assert_eq!(Reference::derive(&namespace(), &claim).as_str(), reference, "{claim}");
    }
}

const VECTORS: [(&str, &str, &str, &str, &str); 4] = include!("vectors.in");

#[test]
fn moving_a_boundary_between_fields_changes_the_key() {
    let a = ClaimKey::in_tenant("ab", "c", "d").expect("a key");
    let b = ClaimKey::in_tenant("a", "bc", "d").expect("a key");
    assert_ne!(IdempotencyKey::derive(&namespace(), &a), IdempotencyKey::derive(&namespace(), &b));
}

#[test]
fn two_namespaces_never_share_a_key() {
    let key = ClaimKey::new("mail", "m1").expect("a key");
    let other = Namespace::new("staging").expect("a namespace");
    assert_ne!(IdempotencyKey::derive(&namespace(), &key), IdempotencyKey::derive(&other, &key));
    assert_ne!(Reference::derive(&namespace(), &key), Reference::derive(&other, &key));
}

#[test]
fn keys_are_measured_in_bytes_and_never_cut() {
    assert!(ClaimKey::new("c", "x".repeat(512)).is_ok());
    assert!(matches!(
        ClaimKey::new("c", "x".repeat(513)),
        Err(KeyError::TooLong { part: "message id", bytes: 513, max: 512 })
    ));
    // 128 characters, 512 bytes; then one more.
    assert!(ClaimKey::new("c", "\u{1F600}".repeat(128)).is_ok());
    assert!(ClaimKey::new("c", "\u{1F600}".repeat(129)).is_err());
    assert!(ClaimKey::in_tenant("t".repeat(129), "c", "m").is_err());
    assert!(ClaimKey::new("c".repeat(129), "m").is_err());
}

#[test]
fn empty_parts_and_control_characters_are_refused_by_name() {
    assert_eq!(ClaimKey::new("", "m"), Err(KeyError::Empty { part: "consumer" }));
    assert_eq!(ClaimKey::new("c", ""), Err(KeyError::Empty { part: "message id" }));
    for bad in ["a\0b", "a\nb", "a\u{7f}b", "a\u{85}b"] {
        assert!(matches!(ClaimKey::new("c", bad), Err(KeyError::Control { part: "message id", at: 1, .. })));
    }
}

#[test]
fn stable_ids_of_brokers_never_collide_within_their_kind() {
    let ce = |s, i| MessageId::cloud_events(s, i).expect("an id");
    assert_ne!(ce("/a:1", "2"), ce("/a", "1:2"));
    assert!(MessageId::cloud_events("", "1").is_err());
    assert!(MessageId::kafka("pay ments", 0, 1).is_err());
    assert!(MessageId::kafka("payments", -1, 1).is_err());
    assert!(MessageId::service_bus(&"x".repeat(129)).is_err());
}

#[test]
fn a_verbatim_key_obeys_the_providers_rule() {
    let rule = VerbatimRule { len_min: 4, len_max: 36, also: "-_".into() };
    let key = |id: &str| ClaimKey::new("c", id).expect("a key");
    assert_eq!(IdempotencyKey::verbatim(&key("order-1"), &rule).expect("fits").as_str(), "order-1");
    for bad in ["abc", "with space", "\u{e9}toile", &"x".repeat(37)] {
        assert!(matches!(IdempotencyKey::verbatim(&key(bad), &rule), Err(KeyError::NotVerbatim { .. })));
    }
}

#[test]
fn a_reference_survives_telephones_and_catches_typing_errors() {
    let r = Reference::derive(&namespace(), &ClaimKey::new("mail", "m1").expect("a key"));
    let spoken = format!("{} {}-{}", &r.as_str()[..4].to_lowercase(), &r.as_str()[4..8], &r.as_str()[8..]);
    assert_eq!(spoken.parse::<Reference>(), Ok(r.clone()));
    let mut missed = 0;
    for at in 0..16 {
        for c in "0123456789ABCDEFGHJKMNPQRSTVWXYZ".chars() {
            let mut typed: Vec<char> = r.as_str().chars().collect();
            if typed[at] == c {
                continue;
            }
            typed[at] = c;
            missed += usize::from(typed.iter().collect::<String>().parse::<Reference>().is_ok());
        }
    }
    assert_eq!(missed, 0, "every single wrong character is found");
    assert_eq!("SHORT".parse::<Reference>(), Err(BadReference::Length(5)));
}

#[test]
fn two_different_keys_never_print_alike() {
    let a = ClaimKey::in_tenant("a/b", "c", "d").expect("a key").to_string();
    let b = ClaimKey::in_tenant("a", "b/c", "d").expect("a key").to_string();
    assert_ne!(a, b);
    assert_ne!(
        ClaimKey::new("c", "e\u{301}").expect("a key").to_string(),
        ClaimKey::new("c", "\u{e9}").expect("a key").to_string()
    );
}
