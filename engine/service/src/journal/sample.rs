//! A sample payment for the journal's tests.

use bursar_core::client::Client;
use bursar_core::ids::RequestId;
use bursar_core::money::{Atoms, Usd};
use bursar_core::networks::NETWORKS;
use bursar_core::time::Utc;
use bursar_domain::assets::Price;
use bursar_domain::identity::Identity;
use bursar_domain::requests::Approver;
use bursar_domain::{LaneAsk, PaymentAsk, Request, Status};
use bursar_x402::Echo;
use bursar_x402::authorization::Authorization;

/// Returns a payment of 3 micro-USD that the operator approved, with a request created by entry `seq`.
pub(super) fn authorized_request(seq: u64, identity: Identity, at: Utc) -> Request {
    let coin = NETWORKS[0].stablecoin.address;
    let terms = Authorization {
        from: coin,
        to: coin,
        value: Atoms::default().0,
        valid_after: 0,
        valid_before: 1,
        nonce: [0; 32].into(),
    };
    Request {
        id: RequestId::from_bytes((u128::from(seq) << 64).to_be_bytes()),
        seq,
        agent: "ABC123".parse().unwrap(),
        created: at,
        label: "pay".parse().unwrap(),
        from: coin,
        ask: LaneAsk::Payment(PaymentAsk {
            chain: NETWORKS[0].chain,
            asset: coin,
            amount: Atoms::default(),
            usd: Usd(3),
            price: Price::Reference,
            payee: coin,
            valid_seconds: 60,
            request_url: None,
            resource_url: None,
            other_urls: Vec::new(),
            domain_contradicted: false,
            padding: 0,
            echo: Echo::none(),
        }),
        identity,
        status: Status::Authorized {
            terms,
            at,
            by: Approver::Operator(Client::Inside),
            signature: None,
        },
        mandate: None,
    }
}
