//! A payer for tests of the facilitator, written by hand from the standards.
//!
//! It shares no code with the facilitator, so their agreement is evidence that both are correct.

use alloy_primitives::{Address, B256, Bytes, U256, address, b256, keccak256};
use alloy_sol_types::SolValue;
use bursar_core::networks::Network;
use k256::ecdsa::SigningKey;
use serde_json::{Value, json};

/// The exact Permit2 proxy; it has the same address on every network.
pub const PROXY: Address = address!("0x402085c248EeA27D92E8b30b2C58ed07f9E20001");
/// The upto Permit2 proxy; it has the same address on every network.
pub const UPTO_PROXY: Address = address!("0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002");
/// Permit2; it has the same address on every network.
pub const PERMIT2: Address = address!("0x000000000022D473030F116dDEE9F6B43aC78BA3");
/// Prism; it has the same address on every network.
pub const PRISM: Address = address!("0x402357ff1e18d42d0f14a5d56d6e1ebd741b3a86");

/// The suffix of a signature of a wallet that is not deployed yet (EIP-6492).
const EIP6492_SUFFIX: B256 =
    b256!("0x6492649264926492649264926492649264926492649264926492649264926492");

/// A throw-away key.
#[derive(Clone)]
pub struct Payer {
    key: SigningKey,
}

impl std::fmt::Debug for Payer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Payer({})", self.address())
    }
}

/// The terms of a payment.
#[derive(Debug, Clone)]
pub struct PaymentTerms {
    pub network: &'static Network,
    pub token: Address,
    /// The EIP-712 domain separator of the token.
    pub domain: B256,
    /// The payer: the key's own address, or a contract wallet that the key owns.
    pub from: Address,
    pub to: Address,
    /// The amount in the token's smallest units; in the scheme `upto`, the maximum amount.
    pub amount: U256,
    /// The account that may settle; only in the scheme `upto`.
    pub facilitator: Address,
    pub nonce: B256,
    /// Unix second from which the payment is valid.
    pub valid_after_s: u64,
    /// Unix second at which the payment expires.
    pub valid_before_s: u64,
}

/// The asset transfer method. `Upto` is Permit2 in the scheme `upto`; all others are of the scheme `exact`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferMethod {
    Eip3009,
    Permit2,
    Prism,
    Upto,
}

/// A signed payment: the JSON of `payload`, and its terms.
#[derive(Debug, Clone)]
pub struct SignedPayment {
    pub terms: PaymentTerms,
    pub method: TransferMethod,
    pub payload: Value,
}

/// Returns the real time in Unix seconds.
pub fn now_s() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_second()).expect("after 1970")
}

/// Returns 32 random bytes.
pub fn random_word() -> B256 {
    let mut word = [0; 32];
    getrandom::fill(&mut word).expect("random bytes");
    B256::new(word)
}

impl Payer {
    /// Creates a payer with a random key.
    pub fn random() -> Self {
        Self::from_word(random_word())
    }

    /// Creates a payer with this key.
    pub fn from_word(key: B256) -> Self {
        Self { key: SigningKey::from_slice(key.as_slice()).expect("a key") }
    }

    /// Returns the key's address.
    pub fn address(&self) -> Address {
        let point = self.key.verifying_key().to_encoded_point(false);
        Address::from_slice(&keccak256(&point.as_bytes()[1..])[12..])
    }

    /// Returns the private key in hex, for a program that signs with it.
    pub fn key(&self) -> String {
        format!("0x{}", hex::encode(self.key.to_bytes()))
    }

    /// Signs a digest; returns 65 bytes in hex.
    pub fn sign(&self, digest: B256) -> String {
        let (signature, id) = self.key.sign_prehash_recoverable(digest.as_slice()).expect("signed");
        let bytes = [&signature.to_bytes()[..], &[27 + id.to_byte()]].concat();
        format!("0x{}", hex::encode(bytes))
    }

    /// Returns terms in the network's stablecoin: valid for five minutes, with a random nonce.
    pub fn terms(&self, network: &'static Network, to: Address, amount: u64) -> PaymentTerms {
        PaymentTerms {
            network,
            token: network.stablecoin.address,
            domain: network.stablecoin.domain_separator,
            from: self.address(),
            to,
            amount: U256::from(amount),
            facilitator: Address::ZERO,
            nonce: random_word(),
            valid_after_s: 0,
            valid_before_s: now_s() + 300,
        }
    }

    /// Signs a payment.
    pub fn pay(&self, method: TransferMethod, terms: &PaymentTerms) -> SignedPayment {
        self.pay_with(method, terms, |signature| signature)
    }

    /// Signs a payment of a wallet that is not deployed yet (EIP-6492).
    pub fn pay_undeployed(
        &self,
        method: TransferMethod,
        terms: &PaymentTerms,
        factory: Address,
        data: &[u8],
    ) -> SignedPayment {
        self.pay_with(method, terms, |signature| {
            let parts = (factory, Bytes::copy_from_slice(data), Bytes::from(signature));
            [&parts.abi_encode_params()[..], EIP6492_SUFFIX.as_slice()].concat()
        })
    }

    /// Signs a payment and changes the signature before it is sent.
    pub fn pay_with(
        &self,
        method: TransferMethod,
        terms: &PaymentTerms,
        change: impl FnOnce(Vec<u8>) -> Vec<u8>,
    ) -> SignedPayment {
        let digest = digest(method, terms);
        let signature = hex::decode(&self.sign(digest)[2..]).expect("hex");
        let signature = format!("0x{}", hex::encode(change(signature)));
        let payload = match method {
            TransferMethod::Eip3009 => json!({
                "signature": signature,
                "authorization": {
                    "from": terms.from, "to": terms.to, "value": terms.amount.to_string(),
                    "validAfter": terms.valid_after_s.to_string(), "validBefore": terms.valid_before_s.to_string(),
                    "nonce": terms.nonce,
                },
            }),
            TransferMethod::Permit2 => json!({
                "signature": signature,
                "permit2Authorization": {
                    "from": terms.from,
                    "permitted": { "token": terms.token, "amount": terms.amount.to_string() },
                    "spender": PROXY,
                    "nonce": U256::from_be_bytes(terms.nonce.0).to_string(),
                    "deadline": terms.valid_before_s.to_string(),
                    "witness": { "to": terms.to, "validAfter": terms.valid_after_s.to_string() },
                },
            }),
            TransferMethod::Upto => json!({
                "signature": signature,
                "permit2Authorization": {
                    "from": terms.from,
                    "permitted": { "token": terms.token, "amount": terms.amount.to_string() },
                    "spender": UPTO_PROXY,
                    "nonce": U256::from_be_bytes(terms.nonce.0).to_string(),
                    "deadline": terms.valid_before_s.to_string(),
                    "witness": {
                        "to": terms.to, "facilitator": terms.facilitator,
                        "validAfter": terms.valid_after_s.to_string(),
                    },
                },
            }),
            // The encoding is that of Prism's own clients: no token, a decimal nonce, and times as numbers.
            TransferMethod::Prism => json!({
                "signature": signature,
                "authorization": {
                    "from": terms.from, "to": terms.to, "value": terms.amount.to_string(),
                    "nonce": U256::from_be_bytes(terms.nonce.0).to_string(),
                    "validAfter": terms.valid_after_s, "validBefore": terms.valid_before_s,
                },
            }),
        };
        SignedPayment { terms: terms.clone(), method, payload }
    }
}

/// Returns the EIP-712 domain separator of a token with this name and version.
pub fn token_domain(name: &str, version: &str, network: &Network, token: Address) -> B256 {
    let kind = "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)";
    let chain = B256::from(U256::from(network.chain.0).to_be_bytes::<32>());
    let words =
        [keccak256(kind), keccak256(name), keccak256(version), chain, token.into_word()].concat();
    keccak256(words)
}

/// Returns the EIP-712 digest that the payer signs.
pub fn digest(method: TransferMethod, terms: &PaymentTerms) -> B256 {
    let number = |number: U256| B256::from(number.to_be_bytes::<32>());
    let seconds = |at: u64| number(U256::from(at));
    let hash = |words: &[B256]| keccak256(words.concat());
    let chain = number(U256::from(terms.network.chain.0));
    let (domain, message) = match method {
        TransferMethod::Eip3009 => {
            let kind = "TransferWithAuthorization(address from,address to,uint256 value,\
                        uint256 validAfter,uint256 validBefore,bytes32 nonce)";
            let message = hash(&[
                keccak256(kind),
                terms.from.into_word(),
                terms.to.into_word(),
                number(terms.amount),
                seconds(terms.valid_after_s),
                seconds(terms.valid_before_s),
                terms.nonce,
            ]);
            (terms.domain, message)
        }
        TransferMethod::Permit2 | TransferMethod::Upto => {
            let domain = hash(&[
                keccak256("EIP712Domain(string name,uint256 chainId,address verifyingContract)"),
                keccak256("Permit2"),
                chain,
                PERMIT2.into_word(),
            ]);
            let to = terms.to.into_word();
            let after = seconds(terms.valid_after_s);
            let (spender, witness, words) = match method {
                TransferMethod::Upto => (
                    UPTO_PROXY,
                    "Witness(address to,address facilitator,uint256 validAfter)",
                    vec![to, terms.facilitator.into_word(), after],
                ),
                _exact => (PROXY, "Witness(address to,uint256 validAfter)", vec![to, after]),
            };
            let kind = format!(
                "PermitWitnessTransferFrom(TokenPermissions permitted,address spender,\
                 uint256 nonce,uint256 deadline,Witness witness)\
                 TokenPermissions(address token,uint256 amount){witness}"
            );
            let permitted = hash(&[
                keccak256("TokenPermissions(address token,uint256 amount)"),
                terms.token.into_word(),
                number(terms.amount),
            ]);
            let witness = hash(&[&[keccak256(witness)], &words[..]].concat());
            let message = hash(&[
                keccak256(kind),
                permitted,
                spender.into_word(),
                terms.nonce,
                seconds(terms.valid_before_s),
                witness,
            ]);
            (domain, message)
        }
        TransferMethod::Prism => {
            let domain = hash(&[
                keccak256(
                    "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)",
                ),
                keccak256("Primer"),
                keccak256("1"),
                chain,
                PRISM.into_word(),
            ]);
            let kind = "ERC20Payment(address token,address from,address to,uint256 value,\
                        uint256 nonce,uint256 validAfter,uint256 validBefore)";
            let message = hash(&[
                keccak256(kind),
                terms.token.into_word(),
                terms.from.into_word(),
                terms.to.into_word(),
                number(terms.amount),
                terms.nonce,
                seconds(terms.valid_after_s),
                seconds(terms.valid_before_s),
            ]);
            (domain, message)
        }
    };
    keccak256([b"\x19\x01", domain.as_slice(), message.as_slice()].concat())
}

impl SignedPayment {
    /// Returns the body of `/verify` and `/settle` in an x402 version, as official clients write it.
    pub fn body(&self, version: u64) -> Value {
        let terms = &self.terms;
        let extra = match self.method {
            TransferMethod::Eip3009 => json!({
                "name": terms.network.stablecoin.domain_name,
                "version": terms.network.stablecoin.domain_version,
            }),
            TransferMethod::Permit2 => json!({ "assetTransferMethod": "permit2" }),
            TransferMethod::Prism => json!({ "assetTransferMethod": "prism" }),
            TransferMethod::Upto => json!({
                "assetTransferMethod": "permit2", "facilitatorAddress": terms.facilitator,
            }),
        };
        let scheme = if self.method == TransferMethod::Upto { "upto" } else { "exact" };
        if version == 1 {
            let name = terms.network.v1_names[0];
            return json!({
                "x402Version": 1,
                "paymentPayload": {
                    "x402Version": 1, "scheme": scheme, "network": name, "payload": self.payload,
                },
                "paymentRequirements": {
                    "scheme": scheme, "network": name, "maxAmountRequired": terms.amount.to_string(),
                    "asset": terms.token, "payTo": terms.to, "maxTimeoutSeconds": 60,
                    "resource": "https://shop.example/thing", "description": "", "mimeType": "",
                    "extra": extra,
                },
            });
        }
        let wanted = json!({
            "scheme": scheme, "network": terms.network.caip2(), "amount": terms.amount.to_string(),
            "asset": terms.token, "payTo": terms.to, "maxTimeoutSeconds": 60, "extra": extra,
        });
        json!({
            "x402Version": 2,
            "paymentPayload": {
                "x402Version": 2, "accepted": wanted, "payload": self.payload,
                "resource": { "url": "https://shop.example/thing" },
            },
            "paymentRequirements": wanted,
        })
    }

    /// Returns the body of `/settle` for an amount of the scheme `upto`.
    pub fn settle_body(&self, amount: u64) -> Value {
        let mut body = self.body(2);
        body["paymentRequirements"]["amount"] = json!(amount.to_string());
        body
    }

    /// Returns the short form of the body that Prism's own clients send.
    pub fn short_body(&self) -> Value {
        let terms = &self.terms;
        json!({
            "x402Version": 2,
            "paymentPayload": {
                "x402Version": 2, "scheme": "exact", "network": terms.network.caip2(),
                "payload": self.payload,
            },
            "paymentRequirements": {
                "scheme": "exact", "network": terms.network.caip2(),
                "maxAmountRequired": terms.amount.to_string(), "asset": terms.token, "payTo": terms.to,
            },
        })
    }
}
