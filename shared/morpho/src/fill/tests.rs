use super::*;
use crate::abi::blue::IMorphoBlue;
use crate::abi::vault::IVault;

const SINGLETON: Address = Address::repeat_byte(0x11);
const VAULT: Address = Address::repeat_byte(0x22);
const TOKEN: Address = Address::repeat_byte(0x33);
const OWNER: Address = Address::repeat_byte(0x55);
const OTHER: Address = Address::repeat_byte(0x66);
const ID: B256 = B256::repeat_byte(0x1d);
const OTHER_ID: B256 = B256::repeat_byte(0x2d);
const VENUES: [VenueId; 2] = [VenueId::Vault(VAULT), VenueId::Market(ID)];

fn n(value: u64) -> U256 {
    U256::from(value)
}

fn moved_amounts(assets: u64, shares: u64) -> Option<MovedAmounts> {
    Some(MovedAmounts { assets: n(assets), shares: n(shares) })
}

fn log(address: Address, event: &impl SolEvent) -> Log {
    let data = event.encode_log_data();
    Log { address, topics: data.topics().to_vec(), data: data.data }
}

/// Returns the event of a deposit that another account pays. The deposit counts for the owner of the shares, not for
/// the payer.
fn deposit(venue: VenueId, owner: Address, (assets, shares): (U256, U256)) -> Log {
    match venue {
        VenueId::Vault(vault) => {
            log(vault, &IVault::Deposit { sender: OTHER, owner, assets, shares })
        }
        VenueId::Market(id) => {
            let (caller, on_behalf) = (OTHER, owner);
            let event = IMorphoBlue::Supply { id, caller, onBehalf: on_behalf, assets, shares };
            log(SINGLETON, &event)
        }
    }
}

fn withdrawal(venue: VenueId, owner: Address, receiver: Address, amounts: (U256, U256)) -> Log {
    let (sender, (assets, shares)) = (OTHER, amounts);
    match venue {
        VenueId::Vault(vault) => {
            log(vault, &IVault::Withdraw { sender, receiver, owner, assets, shares })
        }
        VenueId::Market(id) => {
            let (caller, on_behalf) = (sender, owner);
            let event =
                IMorphoBlue::Withdraw { id, caller, onBehalf: on_behalf, receiver, assets, shares };
            log(SINGLETON, &event)
        }
    }
}

fn transfer(from: Address, to: Address, value: U256) -> Log {
    log(TOKEN, &IErc20::Transfer { from, to, value })
}

#[test]
fn deposits_for_the_owner_are_added() {
    for venue in VENUES {
        let (small, large) = ((n(1), n(20)), (n(300), n(4_000)));
        let rows = [
            (vec![], None),
            (vec![deposit(venue, OWNER, small)], moved_amounts(1, 20)),
            (
                vec![deposit(venue, OWNER, small), deposit(venue, OWNER, large)],
                moved_amounts(301, 4_020),
            ),
            (
                vec![deposit(venue, OWNER, small), deposit(venue, OTHER, large)],
                moved_amounts(1, 20),
            ),
            (vec![deposit(venue, OTHER, large)], None),
            (vec![withdrawal(venue, OWNER, OWNER, small)], None),
        ];
        for (logs, expected) in rows {
            assert_eq!(
                supplied_amounts(SINGLETON, &venue, OWNER, &logs),
                expected,
                "{venue} {logs:?}"
            );
        }
    }
}

#[test]
fn withdrawals_of_the_owner_to_itself_are_added() {
    for venue in VENUES {
        let (small, large) = ((n(1), n(20)), (n(300), n(4_000)));
        let own = withdrawal(venue, OWNER, OWNER, small);
        let rows = [
            (vec![], None),
            (vec![own.clone()], moved_amounts(1, 20)),
            (vec![own.clone(), withdrawal(venue, OWNER, OWNER, large)], moved_amounts(301, 4_020)),
            (vec![own.clone(), withdrawal(venue, OWNER, OTHER, large)], moved_amounts(1, 20)),
            (vec![own, withdrawal(venue, OTHER, OWNER, large)], moved_amounts(1, 20)),
            // The penalty of a forced exit goes to the vault.
            (vec![withdrawal(venue, OWNER, VAULT, large)], None),
            (vec![deposit(venue, OWNER, small)], None),
        ];
        for (logs, expected) in rows {
            assert_eq!(
                withdrawn_amounts(SINGLETON, &venue, OWNER, &logs),
                expected,
                "{venue} {logs:?}"
            );
        }
    }
}

/// A penalty burns shares of the owner, but the assets of these shares stay in the vault.
#[test]
fn the_penalty_of_forced_deallocations_is_added_and_nothing_else_is() {
    let venue = VenueId::Vault(VAULT);
    let (small, large) = ((n(1), n(20)), (n(300), n(4_000)));
    let none = Some(MovedAmounts::default());
    let rows = [
        (vec![], none),
        (vec![withdrawal(venue, OWNER, OWNER, large)], none),
        (vec![withdrawal(venue, OWNER, VAULT, small)], moved_amounts(1, 20)),
        (
            vec![
                withdrawal(venue, OWNER, VAULT, small),
                withdrawal(venue, OWNER, VAULT, large),
                withdrawal(venue, OWNER, OWNER, large),
            ],
            moved_amounts(301, 4_020),
        ),
        (vec![withdrawal(venue, OTHER, VAULT, large)], none),
        (vec![withdrawal(venue, OWNER, OTHER, large)], none),
        (
            vec![
                withdrawal(venue, OWNER, VAULT, (U256::MAX, n(1))),
                withdrawal(venue, OWNER, VAULT, small),
            ],
            None,
        ),
    ];
    for (logs, expected) in rows {
        assert_eq!(penalty_amounts(VAULT, OWNER, &logs), expected, "{logs:?}");
    }
    let mut cut = withdrawal(venue, OWNER, VAULT, small);
    cut.data = cut.data.slice(..63);
    assert_eq!(penalty_amounts(VAULT, OWNER, std::slice::from_ref(&cut)), None);
    cut.address = OTHER;
    assert_eq!(penalty_amounts(VAULT, OWNER, &[cut]), none);
}

#[test]
fn events_of_another_contract_or_market_do_not_count() {
    let amounts = (n(1), n(20));
    for venue in VENUES {
        let mut entered = deposit(venue, OWNER, amounts);
        let mut left = withdrawal(venue, OWNER, OWNER, amounts);
        entered.address = OTHER;
        left.address = OTHER;
        let bare = Log { address: VAULT, topics: vec![], data: Bytes::new() };
        let logs = [entered, left, bare];
        assert_eq!(supplied_amounts(SINGLETON, &venue, OWNER, &logs), None);
        assert_eq!(withdrawn_amounts(SINGLETON, &venue, OWNER, &logs), None);
    }
    let elsewhere = VenueId::Market(OTHER_ID);
    let logs = [deposit(elsewhere, OWNER, amounts), withdrawal(elsewhere, OWNER, OWNER, amounts)];
    let market = VenueId::Market(ID);
    assert_eq!(supplied_amounts(SINGLETON, &market, OWNER, &logs), None);
    assert_eq!(withdrawn_amounts(SINGLETON, &market, OWNER, &logs), None);
    assert_eq!(supplied_amounts(SINGLETON, &elsewhere, OWNER, &logs), moved_amounts(1, 20));
    assert_eq!(withdrawn_amounts(SINGLETON, &elsewhere, OWNER, &logs), moved_amounts(1, 20));
}

#[test]
fn one_unreadable_event_of_the_venue_makes_the_sum_unknown() {
    let amounts = (n(1), n(20));
    for venue in VENUES {
        let good = deposit(venue, OWNER, amounts);
        let mut cut = good.clone();
        cut.data = cut.data.slice(..63);
        assert_eq!(supplied_amounts(SINGLETON, &venue, OWNER, &[good.clone(), cut.clone()]), None);
        // A malformed event of another contract is ignored.
        cut.address = OTHER;
        assert_eq!(supplied_amounts(SINGLETON, &venue, OWNER, &[good, cut]), moved_amounts(1, 20));

        let good = withdrawal(venue, OWNER, OWNER, amounts);
        let mut short = good.clone();
        short.topics.pop();
        assert_eq!(withdrawn_amounts(SINGLETON, &venue, OWNER, &[good, short]), None);
    }
    let mut long = transfer(OTHER, OTHER, n(1));
    long.topics.push(B256::ZERO);
    assert_eq!(token_received_and_sent(TOKEN, OWNER, &[transfer(OTHER, OWNER, n(1)), long]), None);
}

#[test]
fn a_sum_beyond_256_bits_is_unknown() {
    for venue in VENUES {
        for (first, second) in
            [((U256::MAX, n(1)), (n(1), n(1))), ((n(1), U256::MAX), (n(1), n(1)))]
        {
            let logs = [deposit(venue, OWNER, first), deposit(venue, OWNER, second)];
            assert_eq!(supplied_amounts(SINGLETON, &venue, OWNER, &logs), None);
            let logs = [first, second].map(|amounts| withdrawal(venue, OWNER, OWNER, amounts));
            assert_eq!(withdrawn_amounts(SINGLETON, &venue, OWNER, &logs), None);
        }
    }
    for (from, to) in [(OTHER, OWNER), (OWNER, OTHER)] {
        let logs = [transfer(from, to, U256::MAX), transfer(from, to, n(1))];
        assert_eq!(token_received_and_sent(TOKEN, OWNER, &logs), None);
    }
}

#[test]
fn transfers_of_the_token_are_added_on_each_side() {
    let mut foreign = transfer(OTHER, OWNER, n(500));
    foreign.address = OTHER;
    let rows = [
        (vec![], (0, 0)),
        (vec![transfer(OTHER, OWNER, n(10)), transfer(OTHER, OWNER, n(5))], (15, 0)),
        (vec![transfer(OTHER, OWNER, n(10)), transfer(OWNER, OTHER, n(3))], (10, 3)),
        (vec![transfer(OWNER, OTHER, n(3)), transfer(OWNER, VAULT, n(4))], (0, 7)),
        (vec![transfer(OWNER, OWNER, n(3))], (3, 3)),
        (vec![transfer(OTHER, VAULT, n(3)), foreign], (0, 0)),
    ];
    for (logs, (inward, outward)) in rows {
        let expected = Some((n(inward), n(outward)));
        assert_eq!(token_received_and_sent(TOKEN, OWNER, &logs), expected, "{logs:?}");
    }
}
