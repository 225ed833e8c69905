use super::*;
use proptest::prelude::*;

fn unpaid(per_payer: u64, total: u64) -> UnpaidSales {
    UnpaidSales::new(UnpaidLimits {
        per_payer_max: U256::from(per_payer),
        total_max: U256::from(total),
    })
}

fn id(n: u64) -> PaymentId {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&n.to_be_bytes());
    PaymentId(bytes)
}

#[test]
fn sales_are_admitted_up_to_the_unpaid_limits() {
    let unpaid = unpaid(10, 15);
    let payer = Address::repeat_byte(1);
    let first = unpaid.reserve(id(1), payer, U256::from(10)).unwrap();
    assert_eq!(unpaid.reserve(id(2), payer, U256::from(1)).unwrap_err(), OverLimit::Payer);
    let other = Address::repeat_byte(2);
    assert_eq!(unpaid.reserve(id(3), other, U256::from(6)).unwrap_err(), OverLimit::Total);
    let second = unpaid.reserve(id(3), other, U256::from(5)).unwrap();
    assert_eq!(unpaid.reserve(id(4), other, U256::MAX).unwrap_err(), OverLimit::Payer);
    drop(first);
    assert_eq!(unpaid.total(), U256::from(5));
    second.keep();
    assert_eq!(unpaid.total(), U256::from(5), "it was delivered");
    // The same sale counts once, and dropping its second guard changes nothing.
    drop(unpaid.reserve(id(3), other, U256::from(5)).unwrap());
    assert_eq!(unpaid.total(), U256::from(5));
    unpaid.end(id(3));
    unpaid.end(id(3));
    assert_eq!(unpaid.total(), U256::ZERO);
    assert!(unpaid.lock().payers.is_empty(), "payers without unpaid sales take no memory");
}

#[derive(Debug, Clone)]
enum UnpaidStep {
    Reserve { payer: u8, amount: u64 },
    Drop(usize),
    Keep(usize),
    End(usize),
}

fn step() -> impl Strategy<Value = UnpaidStep> {
    prop_oneof![
        3 => (0u8..3, 0u64..60).prop_map(|(payer, amount)| UnpaidStep::Reserve { payer, amount }),
        1 => any::<usize>().prop_map(UnpaidStep::Drop),
        1 => any::<usize>().prop_map(UnpaidStep::Keep),
        1 => any::<usize>().prop_map(UnpaidStep::End),
    ]
}

proptest! {
    /// Whatever the order of the sales is, no limit is exceeded, no sale that fits is refused, and the total is exact.
    #[test]
    fn unpaid_total_is_exact_and_never_exceeds_a_limit(steps in proptest::collection::vec(step(), 1..200)) {
        let unpaid = unpaid(100, 150);
        let mut held: Vec<(UnpaidGuard, u64, u8, u64)> = Vec::new();
        let mut kept: Vec<(u64, u8, u64)> = Vec::new();
        for (n, step) in (0u64..).zip(steps) {
            let sums = |held: &[(UnpaidGuard, u64, u8, u64)], kept: &[(u64, u8, u64)], of: Option<u8>| {
                let counts = |payer: u8| of.is_none_or(|of| of == payer);
                let held = held.iter().filter(|(_, _, payer, _)| counts(*payer)).map(|one| one.3);
                let kept = kept.iter().filter(|(_, payer, _)| counts(*payer)).map(|one| one.2);
                held.chain(kept).sum::<u64>()
            };
            match step {
                UnpaidStep::Reserve { payer, amount } => {
                    let fits = sums(&held, &kept, Some(payer)) + amount <= 100
                        && sums(&held, &kept, None) + amount <= 150;
                    let reserved = unpaid.reserve(id(n), Address::repeat_byte(payer), U256::from(amount));
                    prop_assert_eq!(reserved.is_ok(), fits);
                    held.extend(reserved.ok().map(|guard| (guard, n, payer, amount)));
                }
                UnpaidStep::Drop(at) if !held.is_empty() => drop(held.remove(at % held.len())),
                UnpaidStep::Keep(at) if !held.is_empty() => {
                    let (guard, n, payer, amount) = held.remove(at % held.len());
                    guard.keep();
                    kept.push((n, payer, amount));
                }
                UnpaidStep::End(at) if !kept.is_empty() => {
                    let (n, ..) = kept.remove(at % kept.len());
                    unpaid.end(id(n));
                }
                UnpaidStep::Drop(_) | UnpaidStep::Keep(_) | UnpaidStep::End(_) => {}
            }
            prop_assert_eq!(unpaid.total(), U256::from(sums(&held, &kept, None)));
        }
    }
}

#[test]
fn simultaneous_sales_do_not_exceed_an_unpaid_limit() {
    let unpaid = unpaid(1_000, 2_500);
    let barrier = std::sync::Barrier::new(16);
    let granted: Vec<(u8, Vec<UnpaidGuard>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16u64)
            .map(|thread| {
                let (unpaid, barrier) = (&unpaid, &barrier);
                scope.spawn(move || {
                    let payer = u8::try_from(thread % 4).unwrap();
                    barrier.wait();
                    let all = (0..100).filter_map(|n| {
                        let address = Address::repeat_byte(payer);
                        unpaid.reserve(id(thread * 1_000 + n), address, U256::from(7)).ok()
                    });
                    (payer, all.collect())
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let count = |of: Option<u8>| {
        let of = granted.iter().filter(|(payer, _)| of.is_none_or(|of| of == *payer));
        of.map(|(_, guards)| guards.len()).sum::<usize>()
    };
    assert_eq!(count(None), 2_500 / 7);
    assert!((0..4).all(|payer| count(Some(payer)) <= 1_000 / 7));
    drop(granted);
    assert_eq!(unpaid.total(), U256::ZERO);
}
