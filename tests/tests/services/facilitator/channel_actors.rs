//! The keys of a seed's actors, which build the actions that the script draws: requests to the
//! facilitator, and calls of the escrow.

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::SolCall;
use bursar_core::networks::Network;
use bursar_tests::dice::Dice;
use bursar_tests::payer::Payer;
use bursar_x402::channel::payload::{ClaimRow, DepositAuthorization};
use bursar_x402::channel::{IBatchSettlement, WithdrawDelay};
use serde_json::{Value, json};

use crate::facilitator::channel::{Channel, EIP3009_COLLECTOR, PERMIT2_COLLECTOR};
use crate::facilitator::channel_draws::word;
use crate::facilitator::channel_model::{
    Batch, Layout, Method, Model, Refund, Row, Sender, Transaction, VoucherKey,
};
use crate::facilitator::channel_requests::{Forged, Request};

/// When authorizations end, in Unix seconds: later than the time of any chain here.
const EXPIRES_S: u64 = 100_000_000_000;

/// The keys of a seed's accounts, and its channels.
pub(crate) struct Actors {
    pub(crate) channels: Vec<Channel>,
    pub(crate) payers: Vec<Payer>,
    receivers: Vec<Payer>,
    authorizers: Vec<Payer>,
    stranger: Payer,
}

impl Actors {
    pub(crate) fn new(dice: &mut Dice, layout: &Layout, network: &'static Network) -> Self {
        let mut keys = |count: usize| -> Vec<Payer> {
            (0..count).map(|_one| Payer::from_word(word(dice))).collect()
        };
        let (payers, receivers) = (keys(layout.approvals.len()), keys(layout.receivers));
        let (authorizers, stranger) = (keys(layout.authorizers), keys(1).remove(0));
        let voucher_keys = keys(layout.channels.len());
        let channels = layout.channels.iter().zip(voucher_keys).map(|(terms, voucher_key)| {
            let (payer, authorizer) = (&payers[terms.payer], &authorizers[terms.authorizer]);
            let receiver = receivers[terms.receiver].address();
            let mut channel = Channel::with_config(network, payer.clone(), receiver, |config| {
                config.receiver_authorizer = authorizer.address();
                config.withdraw_delay = WithdrawDelay::try_from(terms.delay_s).expect("short");
                config.salt = terms.salt;
                config.payer_authorizer = match terms.voucher_key {
                    VoucherKey::Named => payer.address(),
                    VoucherKey::Separate => voucher_key.address(),
                    VoucherKey::Payer => Address::ZERO,
                };
            });
            channel.authorizer = authorizer.clone();
            if terms.voucher_key == VoucherKey::Separate {
                channel.voucher_key = voucher_key;
            }
            channel
        });
        let channels = channels.collect();
        Self { channels, payers, receivers, authorizers, stranger }
    }

    pub(crate) fn receiver(&self, number: usize) -> Address {
        self.receivers[number].address()
    }

    pub(crate) fn address(&self, sender: Sender) -> Address {
        let key = match sender {
            Sender::Payer(number) => &self.payers[number],
            Sender::VoucherKey(channel) => &self.channels[channel].voucher_key,
            Sender::Receiver(number) => &self.receivers[number],
            Sender::Authorizer(number) => &self.authorizers[number],
            Sender::Stranger => &self.stranger,
        };
        key.address()
    }

    /// Returns a signature by a key other than the one that must sign.
    fn false_signature(&self) -> String {
        self.stranger.sign(B256::repeat_byte(1))
    }

    fn authorization(&self, model: &Model, number: usize) -> DepositAuthorization {
        let drawn = model.authorizations[number];
        let channel = &self.channels[drawn.channel];
        match drawn.method {
            Method::Eip3009 => DepositAuthorization::Eip3009(channel.eip3009_authorization(
                drawn.amount,
                drawn.nonce,
                EXPIRES_S,
            )),
            Method::Permit2 => DepositAuthorization::Permit2(channel.permit2_authorization(
                drawn.amount,
                drawn.nonce,
                EXPIRES_S,
            )),
        }
    }

    fn row(&self, row: &Row) -> (ClaimRow, Value) {
        let (mut signed, mut json) = self.channels[row.channel].row(row.ceiling, row.total);
        if row.is_forged {
            let signature = self.false_signature();
            signed.signature = signature.parse().expect("hex");
            json["signature"] = json!(signature);
        }
        (signed, json)
    }

    /// Returns the rows of a batch, and the signature of the first row's authorizer.
    fn batch(&self, batch: &Batch) -> (Vec<ClaimRow>, Vec<Value>, String) {
        let (rows, json): (Vec<_>, Vec<_>) = batch.rows.iter().map(|row| self.row(row)).unzip();
        let first = &self.channels[batch.rows[0].channel];
        let signature = if batch.is_forged {
            self.false_signature()
        } else {
            first.authorizer.sign(first.domain().claim_batch_digest(&rows))
        };
        (rows, json, signature)
    }

    fn refund_signature(&self, refund: &Refund) -> String {
        if refund.is_forged {
            return self.false_signature();
        }
        let channel = &self.channels[refund.channel];
        let nonce = U256::from(refund.nonce);
        let digest = channel.domain().refund_digest(channel.id, nonce, refund.amount);
        channel.authorizer.sign(digest)
    }

    /// Builds the body of a request to settle or verify.
    pub(crate) fn body(&self, model: &Model, request: &Request) -> Value {
        match request {
            Request::Deposit { number, ceiling, forged } => {
                let drawn = model.authorizations[*number];
                let authorization = self.authorization(model, *number);
                let channel = &self.channels[drawn.channel];
                let mut body = channel.deposit_body(drawn.amount, *ceiling, &authorization);
                let payload = &mut body["paymentPayload"]["payload"];
                match forged {
                    Some(Forged::Voucher) => {
                        payload["voucher"]["signature"] = json!(self.false_signature());
                    }
                    Some(Forged::Authorization) => {
                        let kind = match drawn.method {
                            Method::Eip3009 => "erc3009Authorization",
                            Method::Permit2 => "permit2Authorization",
                        };
                        payload["deposit"]["authorization"][kind]["signature"] =
                            json!(self.false_signature());
                    }
                    None => {}
                }
                body
            }
            Request::Claim(batch) => {
                let (_rows, json, signature) = self.batch(batch);
                self.channels[batch.rows[0].channel].body(json!({
                    "type": "claim", "claims": json, "claimAuthorizerSignature": signature,
                }))
            }
            Request::Sweep(receiver) => {
                let token = self.channels[0].config.token;
                let to = self.receiver(*receiver);
                let payload = json!({ "type": "settle", "receiver": to, "token": token });
                self.channels[0].body(payload)
            }
            Request::Refund(refund) => self.refund_body(refund),
        }
    }

    fn refund_body(&self, refund: &Refund) -> Value {
        let channel = &self.channels[refund.channel];
        let mut payload = json!({
            "type": "refund", "channelConfig": channel.config_json(),
            "voucher": channel.voucher_json(0), "amount": refund.amount.to_string(),
            "refundNonce": refund.nonce.to_string(), "claims": [],
            "refundAuthorizerSignature": self.refund_signature(refund),
        });
        if !refund.claims.rows.is_empty() {
            let (_rows, json, signature) = self.batch(&refund.claims);
            payload["claims"] = json!(json);
            payload["claimAuthorizerSignature"] = json!(signature);
        }
        channel.body(payload)
    }

    /// Builds the body of a request to verify a voucher, or of a payer's request for a refund.
    pub(crate) fn voucher_body(&self, row: &Row, is_refund: bool) -> Value {
        let channel = &self.channels[row.channel];
        let mut body = channel.voucher(row.ceiling);
        let payload = &mut body["paymentPayload"]["payload"];
        if is_refund {
            payload["type"] = json!("refund");
        }
        if row.is_forged {
            payload["voucher"]["signature"] = json!(self.false_signature());
        }
        body
    }

    /// Encodes a call of the escrow.
    pub(crate) fn call(&self, model: &Model, transaction: &Transaction) -> Bytes {
        let config = |channel: usize| (&self.channels[channel].config).into();
        let data = match transaction {
            Transaction::Deposit(number) => {
                let drawn = model.authorizations[*number];
                let (collector, data) = match self.authorization(model, *number) {
                    DepositAuthorization::Eip3009(signed) => {
                        (EIP3009_COLLECTOR, signed.collector_data(&signed.signature))
                    }
                    DepositAuthorization::Permit2(signed) => {
                        (PERMIT2_COLLECTOR, signed.collector_data(&signed.signature, None))
                    }
                };
                let call = IBatchSettlement::depositCall {
                    config: config(drawn.channel),
                    amount: drawn.amount,
                    collector,
                    collectorData: data,
                };
                call.abi_encode()
            }
            Transaction::Claim(rows) => {
                let claims = rows.iter().map(|row| (&self.row(row).0).into()).collect();
                IBatchSettlement::claimCall { voucherClaims: claims }.abi_encode()
            }
            Transaction::SignedClaim(batch) => {
                let (rows, _json, signature) = self.batch(batch);
                let call = IBatchSettlement::claimWithSignatureCall {
                    voucherClaims: rows.iter().map(Into::into).collect(),
                    authorizerSignature: signature.parse().expect("hex"),
                };
                call.abi_encode()
            }
            Transaction::Sweep(receiver) => {
                let token = self.channels[0].config.token;
                let receiver = self.receiver(*receiver);
                IBatchSettlement::settleCall { receiver, token }.abi_encode()
            }
            Transaction::Initiate { channel, amount } => {
                let (config, amount) = (config(*channel), *amount);
                IBatchSettlement::initiateWithdrawCall { config, amount }.abi_encode()
            }
            Transaction::Finalize { channel } => {
                IBatchSettlement::finalizeWithdrawCall { config: config(*channel) }.abi_encode()
            }
            Transaction::Refund { channel, amount } => {
                let (config, amount) = (config(*channel), *amount);
                IBatchSettlement::refundCall { config, amount }.abi_encode()
            }
            Transaction::SignedRefund(refund) => {
                let call = IBatchSettlement::refundWithSignatureCall {
                    config: config(refund.channel),
                    amount: refund.amount,
                    nonce: U256::from(refund.nonce),
                    receiverAuthorizerSignature: self
                        .refund_signature(refund)
                        .parse()
                        .expect("hex"),
                };
                call.abi_encode()
            }
        };
        data.into()
    }
}
