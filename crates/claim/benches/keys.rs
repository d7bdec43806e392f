//! What a claim costs before it reaches the database: its key, what derives from it, and the digest of the request.
#![allow(clippy::expect_used)]

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use earmark_claim::{ClaimKey, Fingerprint, IdempotencyKey, Namespace, Reference};

/// As long as a UUID's text, and as long as the database's own namespaces.
const MESSAGE_ID: &str = "0b7f4c1e-2a53-4a63-9a33-0d8f1f2e6b41";
const NAMESPACE: &str = "6f1d0c2b9a8e7f605142332415060718";

fn key() -> ClaimKey {
    ClaimKey::in_tenant("acme", "billing", MESSAGE_ID).expect("a key")
}

fn derivation(c: &mut Criterion) {
    let (namespace, key) = (Namespace::new(NAMESPACE).expect("a namespace"), key());
    let long = ClaimKey::in_tenant("t".repeat(128), "c".repeat(128), "m".repeat(512)).expect("the longest");
    let mut group = c.benchmark_group("key");
    group.bench_function("check", |b| {
        b.iter_batched(
            || ("acme".to_owned(), "billing".to_owned(), MESSAGE_ID.to_owned()),
            |(tenant, consumer, id)| ClaimKey::in_tenant(tenant, consumer, id),
            BatchSize::SmallInput,
        );
    });
    for (name, key) in [("idempotency_key", &key), ("idempotency_key_longest", &long)] {
        group.bench_function(name, |b| {
            b.iter(|| IdempotencyKey::derive(black_box(&namespace), black_box(key)))
        });
    }
    group.bench_function("reference", |b| {
        b.iter(|| Reference::derive(black_box(&namespace), black_box(&key)))
    });
    group.bench_function("reference_read_back", |b| {
        let typed = Reference::derive(&namespace, &key).to_string();
        b.iter(|| black_box(&typed).parse::<Reference>());
    });
    group.finish();
}

fn fingerprint(c: &mut Criterion) {
    let mut group = c.benchmark_group("fingerprint");
    // A small JSON request, a large one, and the largest that is kept.
    for bytes in [331_usize, 64 * 1024, 1024 * 1024] {
        let request = vec![b'x'; bytes];
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(bytes.to_string(), |b| {
            b.iter(|| Fingerprint::of(black_box("billing.charge"), black_box(&request)));
        });
    }
    group.finish();
}

criterion_group!(benches, derivation, fingerprint);
criterion_main!(benches);
