use super::*;
use alloy_sol_types::SolValue;

const TOKEN: Address = Address::repeat_byte(0x11);
const WRAPPED: Address = Address::repeat_byte(0x22);
const MANAGER: Address = Address::repeat_byte(0x33);
const ROUTER: Address = Address::repeat_byte(0x44);
const OWNER: Address = Address::repeat_byte(0x55);
const OTHER: Address = Address::repeat_byte(0x66);

fn n(value: u64) -> U256 {
    U256::from(value)
}

fn log(address: Address, event: &impl SolEvent) -> Log {
    let data = event.encode_log_data();
    Log { address, topics: data.topics().to_vec(), data: data.data }
}

fn transfer(from: Address, to: Address, value: u64) -> Log {
    log(TOKEN, &IErc20::Transfer { from, to, value: n(value) })
}

fn withdrawal(src: Address, wad: u64) -> Log {
    log(WRAPPED, &IWrappedNative::Withdrawal { src, wad: n(wad) })
}

fn deposit(dst: Address, wad: u64) -> Log {
    log(WRAPPED, &IWrappedNative::Deposit { dst, wad: n(wad) })
}

fn pool(hooks: Address) -> PoolKey {
    PoolKey::new(Currency::Native, Currency::Token(TOKEN), 500, 10, hooks).unwrap()
}

fn swap(id: B256, sender: Address, amount0: i128) -> Log {
    let event = IPoolManager::Swap {
        id,
        sender,
        amount0,
        amount1: -5,
        sqrtPriceX96: Default::default(),
        liquidity: 1,
        tick: Default::default(),
        fee: Default::default(),
    };
    log(MANAGER, &event)
}

#[test]
fn a_tokens_transfers_to_the_owner_count_less_those_from_it() {
    let flow = Flow::Token { token: TOKEN, owner: OWNER };
    let rows: [(Vec<Log>, Option<u64>, Option<u64>); 7] = [
        (vec![], None, None),
        (vec![transfer(OTHER, OWNER, 10)], Some(10), None),
        (vec![transfer(OTHER, OWNER, 10), transfer(OTHER, OWNER, 5)], Some(15), None),
        (vec![transfer(OTHER, OWNER, 10), transfer(OWNER, OTHER, 3)], Some(7), None),
        (vec![transfer(OWNER, OTHER, 3)], None, Some(3)),
        (vec![transfer(OWNER, OWNER, 3)], None, None),
        (vec![transfer(OTHER, ROUTER, 3)], None, None),
    ];
    for (logs, inward, outward) in rows {
        assert_eq!(net_received(&flow, &logs), inward.map(n), "{logs:?}");
        assert_eq!(net_spent(&flow, &logs), outward.map(n), "{logs:?}");
    }
}

#[test]
fn events_of_other_contracts_and_kinds_do_not_count() {
    let flow = Flow::Token { token: TOKEN, owner: OWNER };
    let mut foreign = transfer(OTHER, OWNER, 10);
    foreign.address = OTHER;
    let mut approval = transfer(OTHER, OWNER, 10);
    approval.topics[0] = B256::repeat_byte(1);
    let bare = Log { address: TOKEN, topics: vec![], data: Bytes::new() };
    assert_eq!(net_received(&flow, &[foreign, approval, bare]), None);
}

#[test]
fn one_unreadable_event_makes_the_fill_unknown() {
    let flow = Flow::Token { token: TOKEN, owner: OWNER };
    let good = transfer(OTHER, OWNER, 10);
    let mut short = good.clone();
    short.data = Bytes::new();
    let mut indexed = good.clone();
    indexed.topics.push(B256::ZERO);
    let mut wide = good.clone();
    wide.topics[2] = B256::repeat_byte(0xff);
    for odd in [short, indexed, wide] {
        assert_eq!(net_received(&flow, &[good.clone(), odd]), None);
    }
    let most = log(TOKEN, &IErc20::Transfer { from: OTHER, to: OWNER, value: U256::MAX });
    assert_eq!(net_received(&flow, std::slice::from_ref(&most)), Some(U256::MAX));
    assert_eq!(net_received(&flow, &[most, good]), None);
}

#[test]
fn wrapped_coin_shows_the_native_side_of_v3() {
    let flow = Flow::Wrapped { wrapped_native: WRAPPED, holder: ROUTER };
    let logs = [withdrawal(ROUTER, 30), withdrawal(OTHER, 100)];
    assert_eq!((net_received(&flow, &logs), net_spent(&flow, &logs)), (Some(n(30)), None));
    let logs = [deposit(ROUTER, 40), deposit(OTHER, 100)];
    assert_eq!((net_received(&flow, &logs), net_spent(&flow, &logs)), (None, Some(n(40))));
    assert_eq!(net_received(&flow, &[]), None);
    let mut odd = withdrawal(ROUTER, 30);
    odd.data = Bytes::from(vec![0; 31]);
    assert_eq!(net_received(&flow, &[withdrawal(ROUTER, 30), odd]), None);
}

#[test]
fn wrapped_coin_without_events_of_its_own_shows_mints_and_burns() {
    let flow = Flow::Wrapped { wrapped_native: WRAPPED, holder: ROUTER };
    let moved = |from, to, value| log(WRAPPED, &IErc20::Transfer { from, to, value: n(value) });
    let burnt = moved(ROUTER, Address::ZERO, 30);
    let minted = moved(Address::ZERO, ROUTER, 40);
    let foreign =
        [moved(OTHER, Address::ZERO, 1), moved(OTHER, ROUTER, 30), moved(ROUTER, OTHER, 9)];
    let with = |log: &Log| [&foreign[..], std::slice::from_ref(log)].concat();
    assert_eq!(net_received(&flow, &with(&burnt)), Some(n(30)));
    assert_eq!(net_spent(&flow, &with(&minted)), Some(n(40)));
    assert_eq!(net_received(&flow, &foreign), None);
    // If both kinds of events are present and agree, the amount counts once. If they differ, the amount is unknown.
    assert_eq!(net_received(&flow, &[burnt.clone(), withdrawal(ROUTER, 30)]), Some(n(30)));
    assert_eq!(net_received(&flow, &[burnt, withdrawal(ROUTER, 31)]), None);
}

#[test]
fn the_pool_manager_shows_the_native_side_of_v4() {
    let pool = pool(Address::ZERO);
    let flow =
        Flow::V4Pool { pool_manager: MANAGER, router: ROUTER, pool, currency: Currency::Native };
    // A positive amount is paid to the swapper.
    let out = [swap(pool.id(), ROUTER, 9)];
    assert_eq!((net_received(&flow, &out), net_spent(&flow, &out)), (Some(n(9)), None));
    let paid = [swap(pool.id(), ROUTER, -9)];
    assert_eq!((net_received(&flow, &paid), net_spent(&flow, &paid)), (None, Some(n(9))));
    let least = [swap(pool.id(), ROUTER, i128::MIN)];
    assert_eq!(net_spent(&flow, &least), Some(n(1) << 127));
    // Events of another pool, of another swapper and of another contract do not count.
    let mut elsewhere = swap(pool.id(), ROUTER, 9);
    elsewhere.address = OTHER;
    let foreign = [swap(B256::ZERO, ROUTER, 9), swap(pool.id(), OTHER, 9), elsewhere];
    assert_eq!(net_received(&flow, &foreign), None);
}

#[test]
fn a_pool_whose_event_proves_nothing_is_unknown() {
    let flow = |pool: PoolKey| Flow::V4Pool {
        pool_manager: MANAGER,
        router: ROUTER,
        pool,
        currency: Currency::Native,
    };
    // Amounts are known if the hook only watches, and unknown if it may change them.
    for (hooks, expected) in [(0x40, Some(n(9))), (0x44, None), (0x88, None)] {
        let pool = pool(Address::with_last_byte(hooks));
        let logs = [swap(pool.id(), ROUTER, 9)];
        assert_eq!(net_received(&flow(pool), &logs), expected);
    }
    let (a, b) = (Currency::Token(TOKEN), Currency::Token(OTHER));
    let tokens = PoolKey::new(a, b, 500, 10, Address::ZERO).unwrap();
    assert_eq!(net_received(&flow(tokens), &[swap(tokens.id(), ROUTER, 9)]), None);
}

#[test]
fn the_events_data_is_five_to_six_words() {
    let logged = swap(B256::ZERO, ROUTER, -1);
    assert_eq!((logged.topics.len(), logged.data.len()), (3, 6 * 32));
    assert_eq!(logged.data[..32], (-1_i128).abi_encode()[..]);
}

/// A v3 pool reports amounts from its own side: a negative amount is paid to the swapper.
#[test]
fn a_v3_pool_reports_what_each_side_moves() {
    let event = |amount0: i64, amount1: i64| {
        let [amount0, amount1] = [amount0, amount1].map(|one| one.try_into().unwrap());
        log(
            OTHER,
            &IV3PoolEvents::Swap {
                sender: ROUTER,
                recipient: OWNER,
                amount0,
                amount1,
                sqrtPriceX96: Default::default(),
                liquidity: 1,
                tick: Default::default(),
            },
        )
    };
    let flow = |is_token0| Flow::V3Pool { pool: OTHER, is_token0 };
    let logs = [event(-70, 50)];
    assert_eq!(
        (net_received(&flow(true), &logs), net_spent(&flow(true), &logs)),
        (Some(n(70)), None)
    );
    assert_eq!(
        (net_received(&flow(false), &logs), net_spent(&flow(false), &logs)),
        (None, Some(n(50)))
    );
    assert_eq!(net_received(&Flow::V3Pool { pool: TOKEN, is_token0: true }, &logs), None);
    assert_eq!(net_received(&flow(true), &[event(-70, 50), event(-5, 1)]), Some(n(75)));
}

/// The two sides of a v4 pool are read independently.
#[test]
fn the_token_side_of_a_v4_pool_is_read() {
    let pool = pool(Address::ZERO);
    let side = |currency| Flow::V4Pool { pool_manager: MANAGER, router: ROUTER, pool, currency };
    let logs = [swap(pool.id(), ROUTER, 9)];
    assert_eq!(net_received(&side(Currency::Native), &logs), Some(n(9)));
    assert_eq!(net_spent(&side(Currency::Token(TOKEN)), &logs), Some(n(5)));
    assert_eq!(net_spent(&side(Currency::Token(OTHER)), &logs), None);
}
