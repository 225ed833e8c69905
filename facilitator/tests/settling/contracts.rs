//! The contracts of the chain in memory: a token, wallets, Multicall3, and Permit2 with its exact proxy.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, Bytes, U256, address};
use alloy_sol_types::{SolCall, SolEvent, SolValue, sol};
use bursar_chain::abi::multicall3::IMulticall3;
use bursar_chain::ports::Log;
use bursar_core::networks::{ChainId, MULTICALL3, Network, by_chain};

pub(crate) const CHAIN: ChainId = ChainId(8453);

/// A wallet's answer to a valid signature (EIP-1271).
pub(crate) const EIP1271_MAGIC: [u8; 4] = [0x16, 0x26, 0xba, 0x7e];
/// A token that is not in our table.
pub(crate) const OTHER_TOKEN: Address = Address::repeat_byte(0x99);

pub(crate) fn network() -> &'static Network {
    by_chain(CHAIN).unwrap()
}

/// The official addresses, which are the defaults of the settings.
pub(crate) const PERMIT2: Address = address!("0x000000000022D473030F116dDEE9F6B43aC78BA3");
pub(crate) const PROXY: Address = address!("0x402085c248EeA27D92E8b30b2C58ed07f9E20001");

sol! {
    interface IPermit2 {
        function nonceBitmap(address owner, uint256 word) external view returns (uint256);
    }

    interface IProxy {
        event Settled();
        function PERMIT2() external view returns (address);
        function settle(
            ((address, uint256), uint256, uint256) permit, address owner,
            (address, uint256) witness, bytes signature
        ) external;
    }

    interface ILongSignature {
        function transferWithAuthorization(
            address from, address to, uint256 value, uint256 validAfter, uint256 validBefore,
            bytes32 nonce, bytes signature
        ) external;
    }

    interface IWallet {
        function isValidSignature(bytes32 hash, bytes signature) external view returns (bytes4);
    }
}

sol! {
    #[derive(Debug)]
    interface IToken {
        event Transfer(address indexed from, address indexed to, uint256 value);
        event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce);
        function balanceOf(address owner) external view returns (uint256);
        function authorizationState(address authorizer, bytes32 nonce) external view returns (bool);
        function DOMAIN_SEPARATOR() external view returns (bytes32);
        function allowance(address owner, address spender) external view returns (uint256);
        function approve(address spender, uint256 amount) external returns (bool);
        function transferWithAuthorization(
            address from, address to, uint256 value, uint256 validAfter, uint256 validBefore,
            bytes32 nonce, uint8 v, bytes32 r, bytes32 s
        ) external;
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Token {
    pub(crate) balances: BTreeMap<Address, U256>,
    pub(crate) used_nonces: BTreeMap<(Address, B256), u64>,
    /// The allowance of Permit2 for each account's tokens.
    pub(crate) allowances: BTreeMap<Address, U256>,
    pub(crate) smart_wallets: BTreeMap<Address, B256>,
    pub(crate) fee_units: u64,
    pub(crate) hidden_balance_of: Option<Address>,
    pub(crate) separator: Option<B256>,
    pub(crate) uses_all_gas: bool,
}

impl Token {
    pub(crate) fn balance(&self, owner: Address) -> U256 {
        self.balances.get(&owner).copied().unwrap_or_default()
    }

    /// Runs a call. Returns its events and its result, or its revert data.
    pub(crate) fn run(
        &mut self,
        to: Address,
        data: &Bytes,
        now_s: u64,
    ) -> Result<(Vec<Log>, Bytes), Bytes> {
        if to == MULTICALL3 && self.uses_all_gas {
            return Err(Bytes::new());
        }
        if to == MULTICALL3 {
            let calls = IMulticall3::aggregate3Call::abi_decode(data).expect("calls").calls;
            let (mut logs, mut answers) = (Vec::new(), Vec::new());
            for call in calls {
                let (success, returned) = match self.run(call.target, &call.callData, now_s) {
                    Ok((more, returned)) => {
                        logs.extend(more);
                        (true, returned)
                    }
                    Err(data) => (false, data),
                };
                answers.push(IMulticall3::CallResult { success, returnData: returned });
            }
            return Ok((logs, IMulticall3::aggregate3Call::abi_encode_returns(&answers).into()));
        }
        if let Some(answer) = self.smart_wallets.get(&to) {
            let is_question = IWallet::isValidSignatureCall::abi_decode(data).is_ok();
            return Ok((
                Vec::new(),
                if is_question { answer.abi_encode().into() } else { Bytes::new() },
            ));
        }
        if to == PERMIT2 {
            let call =
                IPermit2::nonceBitmapCall::abi_decode(data).map_err(|_other| Bytes::new())?;
            let of_word = self.used_nonces.keys().filter_map(|(owner, nonce)| {
                let nonce = U256::from_be_bytes(nonce.0);
                (*owner == call.owner && nonce >> 8 == call.word).then_some(nonce)
            });
            let bit = |nonce: U256| U256::from(1) << (nonce & U256::from(0xff)).to::<usize>();
            let bitmap = of_word.fold(U256::ZERO, |bitmap, nonce| bitmap | bit(nonce));
            return Ok((Vec::new(), bitmap.abi_encode().into()));
        }
        if to == PROXY {
            return match IProxy::settleCall::abi_decode(data) {
                Ok(call) => self.settle_permit(&call, now_s),
                Err(_question) => Ok((Vec::new(), PERMIT2.abi_encode().into())),
            };
        }
        if ![network().stablecoin.address, OTHER_TOKEN].contains(&to) {
            return Ok((Vec::new(), Bytes::new()));
        }
        if let Ok(call) = IToken::balanceOfCall::abi_decode(data) {
            if self.hidden_balance_of == Some(call.owner) {
                return Err(Bytes::new());
            }
            return Ok((Vec::new(), self.balance(call.owner).abi_encode().into()));
        }
        if let Ok(call) = IToken::authorizationStateCall::abi_decode(data) {
            let used = self.used_nonces.contains_key(&(call.authorizer, call.nonce));
            return Ok((Vec::new(), used.abi_encode().into()));
        }
        if let Ok(call) = IToken::allowanceCall::abi_decode(data) {
            let allowance = self.allowances.get(&call.owner).copied().unwrap_or_default();
            return Ok((Vec::new(), allowance.abi_encode().into()));
        }
        if IToken::approveCall::abi_decode(data).is_ok() {
            // The block that contains this call stores the allowance, because only the block knows the sender.
            return Ok((Vec::new(), true.abi_encode().into()));
        }
        if IToken::DOMAIN_SEPARATORCall::abi_decode(data).is_ok() {
            let separator = self.separator.unwrap_or(network().stablecoin.domain_separator);
            return Ok((Vec::new(), separator.abi_encode().into()));
        }
        let pay = match ILongSignature::transferWithAuthorizationCall::abi_decode(data) {
            Ok(long) => IToken::transferWithAuthorizationCall {
                from: long.from,
                to: long.to,
                value: long.value,
                validAfter: long.validAfter,
                validBefore: long.validBefore,
                nonce: long.nonce,
                v: 0,
                r: B256::ZERO,
                s: B256::ZERO,
            },
            Err(_other) => IToken::transferWithAuthorizationCall::abi_decode(data)
                .map_err(|_unknown| Bytes::new())?,
        };
        let has = self.balance(pay.from);
        let received = pay.value.saturating_sub(U256::from(self.fee_units));
        let late = U256::from(now_s) >= pay.validBefore;
        // A payer with code itself decides whether it has signed. Signatures by keys were checked before.
        if self.smart_wallets.get(&pay.from).is_some_and(|one| !one.starts_with(&EIP1271_MAGIC)) {
            return Err(Bytes::new());
        }
        if self.used_nonces.contains_key(&(pay.from, pay.nonce)) || has < pay.value || late {
            return Err(Bytes::new());
        }
        self.used_nonces.insert((pay.from, pay.nonce), now_s);
        self.balances.insert(pay.from, has - pay.value);
        let payee = self.balance(pay.to) + received;
        self.balances.insert(pay.to, payee);
        let used = IToken::AuthorizationUsed { authorizer: pay.from, nonce: pay.nonce };
        let moved = IToken::Transfer { from: pay.from, to: pay.to, value: received };
        let logs = vec![log(to, &used.encode_log_data()), log(to, &moved.encode_log_data())];
        Ok((logs, Bytes::new()))
    }

    /// Moves money by a permit that was already checked.
    fn settle_permit(
        &mut self,
        call: &IProxy::settleCall,
        now_s: u64,
    ) -> Result<(Vec<Log>, Bytes), Bytes> {
        let ((token, amount), nonce, deadline) = call.permit;
        let (owner, payee) = (call.owner, call.witness.0);
        let key = (owner, B256::from(nonce));
        let allowance = self.allowances.get(&owner).copied().unwrap_or_default();
        let has = self.balance(owner);
        let late = U256::from(now_s) > deadline;
        if self.used_nonces.contains_key(&key) || allowance < amount || has < amount || late {
            return Err(Bytes::new());
        }
        self.used_nonces.insert(key, now_s);
        self.balances.insert(owner, has - amount);
        let received = self.balance(payee) + amount;
        self.balances.insert(payee, received);
        let moved = IToken::Transfer { from: owner, to: payee, value: amount };
        let settled = IProxy::Settled {};
        let logs =
            vec![log(token, &moved.encode_log_data()), log(PROXY, &settled.encode_log_data())];
        Ok((logs, Bytes::new()))
    }
}

fn log(address: Address, data: &alloy_primitives::LogData) -> Log {
    Log { address, topics: data.topics().to_vec(), data: data.data.clone() }
}
