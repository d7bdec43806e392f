//! Random histories of the queue against a model that is too slow to be used and too simple to be wrong.

use proptest::prelude::*;

use super::*;

const NAMES: u32 = 40;

#[derive(Clone, Debug)]
enum Step {
    /// So many rows, from that name on, of that many bytes each; outcomes or claims.
    Push {
        outcomes: bool,
        name: u32,
        rows: u32,
        bytes: usize,
    },
    /// Whoever waits for that row goes away.
    Abandon {
        outcomes: bool,
        at: usize,
    },
    Take,
    /// The batch under way at that place ends.
    Release {
        at: usize,
    },
    /// So many seconds pass.
    Pass {
        secs: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![Just(0), 1usize..1000, Just(BYTES_MAX / 3), Just(BYTES_MAX), Just(2 * BYTES_MAX)];
    prop_oneof![
        4 => (any::<bool>(), 0..NAMES, 1u32..5, bytes)
            .prop_map(|(outcomes, name, rows, bytes)| Step::Push { outcomes, name, rows, bytes }),
        // Many keys of their own, so that the bound of rows is met.
        1 => (any::<bool>(), 1000u32..9000, 200u32..700)
            .prop_map(|(outcomes, name, rows)| Step::Push { outcomes, name, rows, bytes: 1 }),
        2 => (any::<bool>(), 0usize..50).prop_map(|(outcomes, at)| Step::Abandon { outcomes, at }),
        4 => Just(Step::Take),
        3 => (0usize..3).prop_map(|at| Step::Release { at }),
        1 => (0u64..8).prop_map(|secs| Step::Pass { secs }),
    ]
}

/// A row as the model has it: its number stands for whoever waits.
#[derive(Clone, Debug)]
struct Row {
    number: usize,
    name: u32,
    bytes: usize,
    deadline: u64,
    abandoned: bool,
}

#[derive(Default)]
struct Model {
    claims: Vec<Row>,
    confirms: Vec<Row>,
    under_way: Vec<(Vec<Row>, Vec<Row>)>,
}

impl Model {
    fn names_under_way(&self) -> Vec<u32> {
        let rows = self.under_way.iter().flat_map(|(claims, confirms)| claims.iter().chain(confirms));
        rows.map(|row| row.name).collect()
    }

    fn take(&mut self, lanes: Lanes) -> (Vec<Row>, Vec<Row>) {
        self.claims.retain(|row| !row.abandoned);
        let apart = lanes == Lanes::Apart;
        let mut names = self.names_under_way();
        let (mut rows, mut bytes) = (0, 0);
        let mut some = |from: &mut Vec<Row>| {
            let mut taken = Vec::new();
            let mut looked_at = 0;
            let mut i = 0;
            while i < from.len() && looked_at < LOOKED_AT_MAX {
                looked_at += 1;
                let next = &from[i];
                if rows == ROWS_MAX || (rows > 0 && bytes + next.bytes > BYTES_MAX.max(bytes)) {
                    break;
                }
                if names.contains(&next.name) {
                    i += 1;
                    continue;
                }
                names.push(next.name);
                rows += 1;
                bytes += next.bytes;
                taken.push(from.remove(i));
            }
            taken
        };
        let claims_fly = self.under_way.iter().any(|(claims, _)| !claims.is_empty());
        let confirms_fly = self.under_way.iter().any(|(_, confirms)| !confirms.is_empty());
        let confirms = if apart && confirms_fly { vec![] } else { some(&mut self.confirms) };
        let with_claims = !(apart && (claims_fly || !confirms.is_empty()));
        let claims = if with_claims { some(&mut self.claims) } else { vec![] };
        self.under_way.push((claims.clone(), confirms.clone()));
        (claims, confirms)
    }

    fn pass(&mut self, now: u64, renewed: u64) -> (Vec<Row>, Vec<Row>) {
        let late = |from: &mut Vec<Row>| -> Vec<Row> {
            let late = from.iter().filter(|row| row.deadline <= now).cloned().collect();
            from.retain(|row| row.deadline > now);
            late
        };
        let claims = late(&mut self.claims);
        let (kept, confirms): (Vec<Row>, _) =
            late(&mut self.confirms).into_iter().partition(|row| row.abandoned);
        self.confirms.extend(kept.into_iter().map(|row| Row { deadline: renewed, ..row }));
        (claims, confirms)
    }
}

fn numbers(rows: &[Row]) -> Vec<usize> {
    rows.iter().map(|row| row.number).collect()
}

/// A row's number travels as its content type and request: neither means anything to the queue.
fn number_of(bytes: &[u8]) -> usize {
    String::from_utf8_lossy(bytes).parse().expect("a number")
}

const PATIENCE: u64 = 10;

fn run(steps: Vec<Step>, lanes: Lanes) -> Result<(), TestCaseError> {
    let begun = Instant::now();
    let at = |secs| begun + Duration::from_secs(secs);
    let (mut queue, mut model, mut now) = (Queue::default(), Model::default(), 0);
    let mut claim_answers: Vec<Option<Answer<Inserted>>> = Vec::new();
    let mut confirm_answers: Vec<Option<Answer<bool>>> = Vec::new();
    let mut holds = Vec::new();
    // Outcomes cannot carry a number of ours: they are told apart by whose answer comes.
    let outcome_number = |confirm: Confirming, answers: &mut Vec<Option<Answer<bool>>>| {
        confirm.answer(Ok(true));
        answers.iter_mut().enumerate().find_map(|(i, answer)| {
            let came = answer.as_mut().is_some_and(|answer| answer.try_recv().is_ok());
            if came {
                *answer = None;
            }
            came.then_some(i)
        })
    };
    for step in steps {
        match step {
            Step::Push { outcomes, name, rows, bytes } => {
                for name in name..name + rows {
                    let deadline = now + PATIENCE;
                    let row = |number| Row { number, name, bytes, deadline, abandoned: false };
                    let text = format!("m{name}");
                    let (answer_to, key) =
                        (at(deadline), ClaimKey::new("mail", text.as_str()).expect("a key"));
                    if outcomes {
                        let (answer, answered) = oneshot::channel();
                        let job = OUTCOME.with(Arc::clone);
                        model.confirms.push(row(confirm_answers.len()));
                        queue.confirms.push_back(Waiting {
                            id: id_of(&key),
                            job,
                            bytes,
                            deadline: answer_to,
                            answer,
                        });
                        confirm_answers.push(Some(answered));
                    } else {
                        let (answer, answered) = oneshot::channel();
                        let number = claim_answers.len();
                        let mut job = CLAIM.with(|claim| Insert::clone(claim));
                        job.claim.request = number.to_string().into_bytes();
                        model.claims.push(row(number));
                        let job = Arc::new(job);
                        queue.claims.push_back(Waiting {
                            id: id_of(&key),
                            job,
                            bytes,
                            deadline: answer_to,
                            answer,
                        });
                        claim_answers.push(Some(answered));
                    }
                }
            }
            Step::Abandon { outcomes, at } => {
                let rows = if outcomes { &mut model.confirms } else { &mut model.claims };
                if let Some(row) = rows.get_mut(at) {
                    row.abandoned = true;
                    if outcomes {
                        confirm_answers[row.number] = None
                    } else {
                        claim_answers[row.number] = None
                    }
                }
            }
            Step::Take => {
                if model.under_way.len() == lanes.flushers_max() {
                    continue;
                }
                let queued = model.claims.len();
                let taken = queue.take(lanes);
                let (claims, confirms) = model.take(lanes);
                prop_assert_eq!(taken.abandoned, queued - model.claims.len() - claims.len());
                let found: Vec<_> =
                    taken.batch.claims.iter().map(|c| number_of(&c.job.claim.request)).collect();
                prop_assert_eq!(found, numbers(&claims));
                prop_assert_eq!(taken.batch.confirms.len(), confirms.len());
                prop_assert!(taken.batch.claims.len() + taken.batch.confirms.len() <= ROWS_MAX);
                holds.push(taken.batch.hold());
                for (confirm, row) in taken.batch.confirms.into_iter().zip(&confirms) {
                    let number = outcome_number(confirm, &mut confirm_answers);
                    prop_assert_eq!(number, (!row.abandoned).then_some(row.number));
                }
                let names = model.names_under_way();
                let unique: HashSet<_> = names.iter().collect();
                prop_assert_eq!(unique.len(), names.len(), "a key is in two batches");
            }
            Step::Release { at } => {
                if at < holds.len() {
                    queue.release(&holds.remove(at));
                    model.under_way.remove(at);
                }
            }
            Step::Pass { secs } => {
                now += secs;
                let late = queue.take_late(at(now), at(now + PATIENCE));
                let (claims, confirms) = model.pass(now, now + PATIENCE);
                let found: Vec<_> = late.claims.iter().map(|c| number_of(&c.job.claim.request)).collect();
                prop_assert_eq!(found, numbers(&claims));
                prop_assert_eq!(late.confirms.len(), confirms.len());
                let next = model.claims.iter().chain(&model.confirms).map(|row| row.deadline).min();
                prop_assert_eq!(queue.next_deadline(), next.map(at));
            }
        }
        prop_assert_eq!(
            (queue.claims.len(), queue.confirms.len()),
            (model.claims.len(), model.confirms.len())
        );
    }
    // Whatever was queued comes out in the end.
    while !(queue.claims.is_empty() && queue.confirms.is_empty()) {
        for hold in holds.drain(..) {
            queue.release(&hold);
        }
        model.under_way.clear();
        let taken = queue.take(lanes);
        let (claims, confirms) = model.take(lanes);
        prop_assert!(
            !taken.batch.is_empty() || taken.abandoned > 0,
            "nothing is under way and nothing is taken"
        );
        prop_assert_eq!(
            (taken.batch.claims.len(), taken.batch.confirms.len()),
            (claims.len(), confirms.len())
        );
        holds.push(taken.batch.hold());
    }
    Ok(())
}

thread_local! {
    static CLAIM: Arc<Insert> = insert("m");
    static OUTCOME: Arc<Confirm> = confirm("m");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn mixed_batches_are_as_the_model_takes_them(steps in proptest::collection::vec(step(), 1..60)) {
        run(steps, MIXED)?;
    }

    #[test]
    fn batches_apart_are_as_the_model_takes_them(steps in proptest::collection::vec(step(), 1..60)) {
        run(steps, Lanes::Apart)?;
    }
}
