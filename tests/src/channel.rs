//! A payment channel with the keys of its payer and its merchant, which builds requests.

use alloy_primitives::{Address, B256, U256, address, b256, keccak256};
use bursar_core::networks::Network;
use bursar_x402::channel::deposit::{DepositTerms, Eip3009Authorization, Permit2Authorization};
use bursar_x402::channel::payload::{ClaimRow, DepositAuthorization};
use bursar_x402::channel::{ChannelConfig, EscrowDomain, WithdrawDelay};
use serde_json::{Value, json};

use crate::payer::{PERMIT2, Payer, now_s, random_word};

/// The escrow, which has the same address on every network.
pub const ESCROW: Address = address!("0x4020074e9dF2ce1deE5A9C1b5c3f541D02a10003");
/// The collector of deposits by EIP-3009.
pub const EIP3009_COLLECTOR: Address = address!("0x4020806089470a89826cB9fB1f4059150b550004");
/// The collector of deposits by Permit2.
pub const PERMIT2_COLLECTOR: Address = address!("0x4020425FAf3B746C082C2f942b4E5159887B0005");
/// The price of a call in the tests of channels, in smallest units.
pub const PRICE: u128 = 1_000;

/// A channel between a payer and a merchant, with the keys of both.
pub struct Channel {
    network: &'static Network,
    pub payer: Payer,
    pub authorizer: Payer,
    /// The key that signs the vouchers: the payer's, unless a test replaces it.
    pub voucher_key: Payer,
    pub config: ChannelConfig,
    pub id: B256,
}

impl Channel {
    pub fn new(network: &'static Network, payer: Payer, receiver: Address) -> Self {
        Self::with_config(network, payer, receiver, |_config| {})
    }

    /// Like `new`, but with a changed config.
    pub fn with_config(
        network: &'static Network,
        payer: Payer,
        receiver: Address,
        change: impl FnOnce(&mut ChannelConfig),
    ) -> Self {
        let authorizer = Payer::random();
        let mut config = ChannelConfig {
            payer: payer.address(),
            payer_authorizer: payer.address(),
            receiver,
            receiver_authorizer: authorizer.address(),
            token: network.stablecoin.address,
            withdraw_delay: WithdrawDelay::try_from(900).expect("short"),
            salt: random_word(),
        };
        change(&mut config);
        let id = EscrowDomain::new(network.chain, ESCROW).channel_id(&config);
        let voucher_key = payer.clone();
        Self { network, payer, authorizer, voucher_key, config, id }
    }

    pub fn domain(&self) -> EscrowDomain {
        EscrowDomain::new(self.network.chain, ESCROW)
    }

    pub fn config_json(&self) -> Value {
        let config = &self.config;
        json!({
            "payer": config.payer, "payerAuthorizer": config.payer_authorizer,
            "receiver": config.receiver, "receiverAuthorizer": config.receiver_authorizer,
            "token": config.token, "withdrawDelay": config.withdraw_delay.seconds(),
            "salt": config.salt,
        })
    }

    pub fn voucher_signature(&self, ceiling: u128) -> String {
        self.voucher_key.sign(self.domain().voucher_digest(self.id, ceiling))
    }

    pub fn voucher_json(&self, ceiling: u128) -> Value {
        json!({
            "channelId": self.id, "maxClaimableAmount": ceiling.to_string(),
            "signature": self.voucher_signature(ceiling),
        })
    }

    /// Builds the body of a request with this payload.
    pub fn body(&self, payload: Value) -> Value {
        let coin = &self.network.stablecoin;
        let wanted = json!({
            "scheme": "batch-settlement", "network": self.network.caip2(),
            "amount": PRICE.to_string(), "asset": self.config.token, "payTo": self.config.receiver,
            "maxTimeoutSeconds": 60,
            "extra": {
                "name": coin.domain_name, "version": coin.domain_version,
                "receiverAuthorizer": self.config.receiver_authorizer,
                "withdrawDelay": self.config.withdraw_delay.seconds(),
            },
        });
        json!({
            "x402Version": 2,
            "paymentPayload": { "x402Version": 2, "accepted": wanted, "payload": payload },
            "paymentRequirements": wanted,
        })
    }

    /// Builds a deposit by EIP-3009, with a voucher for `ceiling`.
    pub fn deposit(&self, amount: u128, ceiling: u128) -> Value {
        let authorization = self.eip3009_authorization(amount, random_word(), now_s() + 300);
        self.deposit_body(amount, ceiling, &DepositAuthorization::Eip3009(authorization))
    }

    /// Builds a deposit by Permit2, with a voucher for `ceiling`.
    pub fn deposit_by_permit2(&self, amount: u128, ceiling: u128) -> Value {
        let authorization = self.permit2_authorization(amount, random_word(), now_s() + 300);
        self.deposit_body(amount, ceiling, &DepositAuthorization::Permit2(authorization))
    }

    /// Builds a signed authorization that is valid until `expires_s`, in Unix seconds.
    pub fn eip3009_authorization(
        &self,
        amount: u128,
        salt: B256,
        expires_s: u64,
    ) -> Eip3009Authorization {
        let mut authorization = Eip3009Authorization {
            valid_after: U256::ZERO,
            valid_before: U256::from(expires_s),
            salt: U256::from_be_bytes(salt.0),
            signature: Default::default(),
        };
        let terms = DepositTerms {
            payer: self.config.payer,
            collector: EIP3009_COLLECTOR,
            channel_id: self.id,
            amount,
        };
        let digest = authorization.digest(self.network.stablecoin.domain_separator, &terms);
        authorization.signature = self.payer.sign(digest).parse().expect("hex");
        authorization
    }

    /// Builds a signed permit that is valid until `expires_s`, in Unix seconds.
    pub fn permit2_authorization(
        &self,
        amount: u128,
        nonce: B256,
        expires_s: u64,
    ) -> Permit2Authorization {
        let mut authorization = Permit2Authorization {
            from: self.config.payer,
            token: self.config.token,
            amount: U256::from(amount),
            spender: PERMIT2_COLLECTOR,
            nonce: U256::from_be_bytes(nonce.0),
            deadline: U256::from(expires_s),
            channel_id: self.id,
            signature: Default::default(),
        };
        let kind = b256!("0x8cad95687ba82c2ce50e74f7b754645e5117c3a5bec8151c0726d5857980a866");
        let chain = B256::from(U256::from(self.network.chain.0));
        let separator =
            keccak256([kind, keccak256("Permit2"), chain, PERMIT2.into_word()].concat());
        authorization.signature =
            self.payer.sign(authorization.digest(separator)).parse().expect("hex");
        authorization
    }

    /// Builds the body of a deposit with a signed authorization.
    pub fn deposit_body(
        &self,
        amount: u128,
        ceiling: u128,
        authorization: &DepositAuthorization,
    ) -> Value {
        let authorization = match authorization {
            DepositAuthorization::Eip3009(signed) => json!({ "erc3009Authorization": {
                "validAfter": "0", "validBefore": signed.valid_before.to_string(),
                "salt": format!("0x{:064x}", signed.salt), "signature": signed.signature,
            } }),
            DepositAuthorization::Permit2(signed) => json!({ "permit2Authorization": {
                "from": signed.from,
                "permitted": { "token": signed.token, "amount": amount.to_string() },
                "spender": signed.spender, "nonce": signed.nonce.to_string(),
                "deadline": signed.deadline.to_string(),
                "witness": { "channelId": self.id }, "signature": signed.signature,
            } }),
        };
        self.body(json!({
            "type": "deposit", "channelConfig": self.config_json(),
            "voucher": self.voucher_json(ceiling),
            "deposit": { "amount": amount.to_string(), "authorization": authorization },
        }))
    }

    pub fn voucher(&self, ceiling: u128) -> Value {
        self.body(json!({
            "type": "voucher", "channelConfig": self.config_json(),
            "voucher": self.voucher_json(ceiling),
        }))
    }

    pub fn row(&self, ceiling: u128, total: u128) -> (ClaimRow, Value) {
        let signature = self.voucher_signature(ceiling);
        let row = ClaimRow {
            channel: self.config.clone(),
            max_claimable: ceiling,
            signature: signature.parse().expect("hex"),
            total_claimed: total,
        };
        let json = json!({
            "voucher": { "channel": self.config_json(), "maxClaimableAmount": ceiling.to_string() },
            "signature": signature, "totalClaimed": total.to_string(),
        });
        (row, json)
    }

    /// Builds a claim of `total`, under a voucher for `ceiling`.
    pub fn claim(&self, ceiling: u128, total: u128) -> Value {
        let (row, json) = self.row(ceiling, total);
        let signature = self.authorizer.sign(self.domain().claim_batch_digest(&[row]));
        self.body(json!({
            "type": "claim", "claims": [json], "claimAuthorizerSignature": signature,
        }))
    }

    pub fn sweep(&self) -> Value {
        self.body(json!({
            "type": "settle", "receiver": self.config.receiver, "token": self.config.token,
        }))
    }

    /// Builds a refund. If `claimed` is not zero, the refund first claims this amount.
    pub fn refund(&self, amount: u128, nonce: u64, claimed: u128) -> Value {
        let digest = self.domain().refund_digest(self.id, U256::from(nonce), amount);
        let mut payload = json!({
            "type": "refund", "channelConfig": self.config_json(),
            "voucher": self.voucher_json(claimed), "amount": amount.to_string(),
            "refundNonce": nonce.to_string(), "claims": [],
            "refundAuthorizerSignature": self.authorizer.sign(digest),
        });
        if claimed > 0 {
            let (row, json) = self.row(claimed, claimed);
            payload["claims"] = json!([json]);
            let batch = self.domain().claim_batch_digest(&[row]);
            payload["claimAuthorizerSignature"] = json!(self.authorizer.sign(batch));
        }
        self.body(payload)
    }

    pub fn state(&self, balance: u128, claimed: u128, nonce: u64) -> Value {
        json!({
            "channelId": self.id, "balance": balance.to_string(),
            "totalClaimed": claimed.to_string(), "withdrawRequestedAt": 0,
            "refundNonce": nonce.to_string(),
        })
    }
}
