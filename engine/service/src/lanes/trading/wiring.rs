//! Checks that the contracts of an exchange are those of our table: they have code, and they return each other's
//! addresses. This does not expose a lying endpoint, but it finds a wrong table, or a chain without these contracts,
//! before a trade depends on it.

use std::fmt;

use alloy_primitives::{Address, Bytes};
use bursar_chain::ports::{Chain, ChainFault, Question};
use bursar_core::codes::Code;
use bursar_core::networks::{Exchange, Network};
use bursar_domain::Refusal;
use bursar_domain::trades::Venue;
use bursar_uniswap::{permit, read};

/// Gas limit of one `Question`.
const CALL_GAS: u64 = 200_000;

/// Whether the contracts of an exchange are configured as expected.
///
/// An error names the first contract that is not as expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wiring {
    pub v3: Result<(), UnexpectedContract>,
    pub v4: Result<(), UnexpectedContract>,
    /// `Ok` also if the network has no feed, or the feed's address has no code.
    pub feed: Result<(), UnexpectedContract>,
}

/// The name of a contract that does not match our table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnexpectedContract(pub &'static str);

impl fmt::Display for UnexpectedContract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the contract {} is not the one that Bursar expects", self.0)
    }
}

impl Wiring {
    /// Every contract is as expected.
    pub const SOUND: Self = Self { v3: Ok(()), v4: Ok(()), feed: Ok(()) };

    /// Queries the contracts of a network's exchange.
    ///
    /// # Errors
    /// No node answers.
    pub async fn read(
        chain: &dyn Chain,
        network: &Network,
        exchange: &Exchange,
    ) -> Result<Self, ChainFault> {
        let asked = WiringCheck::of(exchange);
        let questions = asked.iter().map(|one| one.question.clone()).collect();
        let answers = chain.answers(questions).await?;
        let answers = answers.into_iter().map(|answer| match answer {
            Err(ChainFault::Reverted { .. }) => Ok(Bytes::new()),
            other => other,
        });
        let answers: Vec<Bytes> = answers.collect::<Result<_, _>>()?;
        Ok(Self::judge(network, exchange, &asked, &answers))
    }

    /// Compares the answers with those that our table implies. A missing answer counts as empty.
    fn judge(
        network: &Network,
        exchange: &Exchange,
        asked: &[WiringCheck],
        answers: &[Bytes],
    ) -> Self {
        let mut wiring = Self::SOUND;
        let none = Bytes::new();
        let answers = answers.iter().chain(std::iter::repeat(&none));
        for (one, answer) in asked.iter().zip(answers) {
            if !(one.is_expected)(answer, network, exchange) {
                for part in one.parts {
                    let slot = match part {
                        ExchangePart::V3 => &mut wiring.v3,
                        ExchangePart::V4 => &mut wiring.v4,
                        ExchangePart::Feed => &mut wiring.feed,
                    };
                    *slot = slot.and(Err(UnexpectedContract(one.name)));
                }
            }
        }
        wiring
    }

    /// Returns whether every contract is as expected.
    pub fn is_sound(&self) -> bool {
        *self == Self::SOUND
    }

    /// Returns whether the contracts of a venue are as expected.
    pub(super) fn allows(&self, venue: &Venue) -> bool {
        self.of(venue).is_ok()
    }

    /// Refuses a venue whose contracts are not as expected.
    ///
    /// # Errors
    /// `QUOTE_FAILED`
    pub(super) fn require(&self, venue: &Venue) -> Result<(), Refusal> {
        self.of(venue).map_err(|unexpected| {
            let message =
                format!("On this network {unexpected}: ask the operator to run `doctor`.");
            Refusal::because(Code::QuoteFailed, message)
        })
    }

    fn of(&self, venue: &Venue) -> Result<(), UnexpectedContract> {
        match venue {
            Venue::V4 { .. } => self.v4,
            // Wrapping uses the wrapped coin, which the v3 router names.
            Venue::V3 { .. } | Venue::V3Path { .. } | Venue::Wrap | Venue::Unwrap => self.v3,
        }
    }
}

/// The parts of an exchange that depend on a contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExchangePart {
    V3,
    V4,
    Feed,
}

/// A read with the answer that our table implies.
struct WiringCheck {
    name: &'static str,
    parts: &'static [ExchangePart],
    question: Question,
    is_expected: fn(&Bytes, &Network, &Exchange) -> bool,
}

impl WiringCheck {
    fn of(exchange: &Exchange) -> Vec<Self> {
        let (v3, v4) = (&exchange.v3, &exchange.v4);
        let code = |name, parts, address| Self {
            name,
            parts,
            question: Question::Code(address),
            is_expected: |code, _network, _exchange| !code.is_empty(),
        };
        let call = |name, parts, to, data, is_expected| Self {
            name,
            parts,
            question: Question::Call { from: Address::ZERO, to, data, gas: CALL_GAS },
            is_expected,
        };
        let both: &[ExchangePart] = &[ExchangePart::V3, ExchangePart::V4];
        let mut asked = vec![
            code("WETH", both, exchange.wrapped_native),
            code("UniswapV3Factory", &[ExchangePart::V3], v3.factory),
            code("PoolManager", &[ExchangePart::V4], v4.pool_manager),
            code("UniversalRouter", &[ExchangePart::V4], v4.router),
            call(
                "Permit2",
                &[ExchangePart::V4],
                exchange.permit2,
                read::domain_separator_call(),
                is_domain_of_permit2,
            ),
        ];
        for (name, to) in [("SwapRouter02", v3.router), ("QuoterV2", v3.quoter)] {
            asked.push(call(
                name,
                &[ExchangePart::V3],
                to,
                read::router_factory_call(),
                |answer, _network, exchange| is_address(answer, exchange.v3.factory),
            ));
            asked.push(call(
                name,
                &[ExchangePart::V3],
                to,
                read::router_wrapped_native_call(),
                |answer, _network, exchange| is_address(answer, exchange.wrapped_native),
            ));
        }
        for (name, to) in [("StateView", v4.state_view), ("V4Quoter", v4.quoter)] {
            asked.push(call(
                name,
                &[ExchangePart::V4],
                to,
                read::pool_manager_call(),
                |answer, _network, exchange| is_address(answer, exchange.v4.pool_manager),
            ));
        }
        asked.extend(exchange.native_feed.map(|feed| {
            call(
                "price feed",
                &[ExchangePart::Feed],
                feed.address,
                read::feed_decimals_call(),
                is_feed_or_empty,
            )
        }));
        asked
    }
}

fn is_domain_of_permit2(answer: &Bytes, network: &Network, exchange: &Exchange) -> bool {
    permit::domain(network.chain, exchange.permit2).separator().as_slice() == answer.as_ref()
}

/// Returns whether the answer is that of the feed, or empty. If the feed's address has no code, the answer is empty
/// and the price API alone decides.
fn is_feed_or_empty(answer: &Bytes, _network: &Network, exchange: &Exchange) -> bool {
    let decimals = exchange.native_feed.map(|feed| feed.decimals);
    answer.is_empty() || decimals.is_some_and(|own| read::decode_feed_decimals(answer) == Ok(own))
}

fn is_address(answer: &[u8], expected: Address) -> bool {
    read::decode_address(answer) == Ok(expected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{B256, U256};
    use bursar_core::networks::{NETWORKS, by_id_name_or_title};

    /// The answers of the expected contracts, in the order of the questions.
    fn expected_answers(network: &Network, exchange: &Exchange) -> Vec<Bytes> {
        let word = |address: Address| Bytes::copy_from_slice(address.into_word().as_slice());
        let code = Bytes::from_static(&[0x60]);
        let (factory, wrapped) = (word(exchange.v3.factory), word(exchange.wrapped_native));
        let domain: B256 = permit::domain(network.chain, exchange.permit2).separator();
        let mut answers = vec![code; 4];
        answers.push(Bytes::copy_from_slice(domain.as_slice()));
        answers.extend([factory.clone(), wrapped.clone(), factory, wrapped]);
        answers.extend([word(exchange.v4.pool_manager), word(exchange.v4.pool_manager)]);
        answers.extend(
            exchange
                .native_feed
                .map(|feed| Bytes::copy_from_slice(&U256::from(feed.decimals).to_be_bytes::<32>())),
        );
        answers
    }

    #[test]
    fn each_wrong_answer_closes_what_depends_on_it() {
        for network in NETWORKS {
            let Some(exchange) = network.exchange else { continue };
            let asked = WiringCheck::of(exchange);
            let right = expected_answers(network, exchange);
            assert_eq!(asked.len(), right.len());
            let judge = |answers: &[Bytes]| Wiring::judge(network, exchange, &asked, answers);
            assert_eq!(judge(&right), Wiring::SOUND);
            for (at, one) in asked.iter().enumerate() {
                let is_code = matches!(one.question, Question::Code(_));
                let wrong = if is_code { Bytes::new() } else { Bytes::from(vec![7; 32]) };
                let mut answers = right.clone();
                answers[at] = wrong;
                let found = judge(&answers);
                let closed = Err(UnexpectedContract(one.name));
                let expect = |part: bool| if part { closed } else { Ok(()) };
                let has = |wanted: ExchangePart| one.parts.contains(&wanted);
                let expected = Wiring {
                    v3: expect(has(ExchangePart::V3)),
                    v4: expect(has(ExchangePart::V4)),
                    feed: expect(has(ExchangePart::Feed)),
                };
                assert_eq!(found, expected, "{}", one.name);
            }
            assert!(judge(&[]).v3.is_err() && judge(&[]).v4.is_err());
        }
    }

    #[test]
    fn a_feed_without_code_is_no_feed() {
        let network = by_id_name_or_title("base").unwrap();
        let exchange = network.exchange.unwrap();
        assert!(exchange.native_feed.is_some());
        let mut answers = expected_answers(network, exchange);
        answers.pop();
        let asked = WiringCheck::of(exchange);
        assert_eq!(Wiring::judge(network, exchange, &asked, &answers), Wiring::SOUND);
    }
}
