//! Calls that only read: how they are sent, and how they end.

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::{SolCall, sol};
use bursar_chain::abi::multicall3::IMulticall3;
use bursar_chain::ports::{ChainFault, Question};

use crate::contract_call::ContractCall;
use crate::network::NetworkContext;
use crate::node::Priority;

sol! {
    #[derive(Debug)]
    interface IWallet {
        function isValidSignature(bytes32 hash, bytes signature) external view returns (bytes4);
    }
}

/// The value that a contract wallet returns for a valid signature (EIP-1271).
const EIP1271_MAGIC: [u8; 4] = [0x16, 0x26, 0xba, 0x7e];

/// Gas limit of a question that runs untrusted code, which belongs to the payer or the token. It also bounds the size
/// of the answer. The simulation of the exact transaction has its own limit.
pub(crate) const UNTRUSTED_CALL_GAS: u64 = 3_000_000;
/// Gas limit of any other question.
pub(crate) const TRUSTED_CALL_GAS: u64 = 10_000_000;

/// How a call ended on the chain.
#[derive(Debug)]
pub(crate) enum CallOutcome {
    /// The data that the call returned.
    Returned(Bytes),
    /// The revert data; empty if the call failed without a revert.
    Reverted(Bytes),
}

impl CallOutcome {
    /// Reads a node's answer to a call.
    ///
    /// # Errors
    /// No node ran the call.
    pub(crate) fn of(answer: Result<Bytes, ChainFault>) -> Result<Self, ChainFault> {
        match answer {
            Ok(data) => Ok(Self::Returned(data)),
            Err(ChainFault::Reverted { data }) => Ok(Self::Reverted(data)),
            // A call that ran and failed without a revert. Any other rejection is the node's own problem.
            Err(ChainFault::Rejected { message, .. }) if is_call_failure(&message) => {
                Ok(Self::Reverted(Bytes::new()))
            }
            Err(fault) => Err(fault),
        }
    }

    /// The data of a call that succeeded.
    pub(crate) fn returned_data(self) -> Option<Bytes> {
        match self {
            Self::Returned(data) => Some(data),
            Self::Reverted(_data) => None,
        }
    }

    /// The revert data of a call that failed.
    pub(crate) fn revert_data(self) -> Option<Bytes> {
        match self {
            Self::Returned(_data) => None,
            Self::Reverted(data) => Some(data),
        }
    }
}

/// Whether a message blames the call itself, in the words of geth, Erigon, Nethermind, Besu, Nitro or anvil.
fn is_call_failure(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    let words = [
        "out of gas",
        "outofgas",
        "gas required exceeds",
        "gas too low",
        "intrinsic gas",
        "floor data gas",
        "invalid opcode",
        "invalid jump",
        "stack ",
        "execution",
        "evm error",
        "insufficient funds",
        "return data",
    ];
    words.iter().any(|word| message.contains(word))
}

pub(crate) fn call_question(from: Address, call: ContractCall, gas: u64) -> Question {
    Question::Call { from, to: call.to, data: call.data, gas }
}

/// Reads an answer of 32 bytes as a number.
pub(crate) fn number(bytes: &Bytes) -> Option<U256> {
    word(bytes).map(|word| U256::from_be_bytes(word.0))
}

/// Reads an answer of 32 bytes.
pub(crate) fn word(bytes: &Bytes) -> Option<B256> {
    (bytes.len() == 32).then(|| B256::from_slice(bytes))
}

/// The call that asks a contract wallet whether it accepts a signature (EIP-1271).
pub(crate) fn signature_call(wallet: Address, digest: B256, signature: Bytes) -> ContractCall {
    let question = IWallet::isValidSignatureCall { hash: digest, signature };
    ContractCall { to: wallet, data: question.abi_encode().into() }
}

/// Whether the answer to a [`signature_call`] accepts the signature.
pub(crate) fn is_accepted(answer: Option<Bytes>) -> bool {
    answer.is_some_and(|returned| returned.len() == 32 && returned.starts_with(&EIP1271_MAGIC))
}

/// The question that runs calls one after the other through Multicall3. Each may fail.
pub(crate) fn batch_question(
    network: &NetworkContext,
    calls: Vec<ContractCall>,
    gas: u64,
) -> Question {
    let calls = calls.into_iter().map(|call| IMulticall3::Call3 {
        target: call.to,
        allowFailure: true,
        callData: call.data,
    });
    let data = IMulticall3::aggregate3Call { calls: calls.collect() }.abi_encode();
    let batch = ContractCall { to: network.contracts.multicall3, data: data.into() };
    call_question(Address::ZERO, batch, gas)
}

/// Reads the answer to a [`batch_question`] of this many calls.
///
/// # Errors
/// The number of results differs from the number of calls.
pub(crate) fn batch_outcomes(
    data: &Bytes,
    expected: usize,
) -> Result<Vec<CallOutcome>, ChainFault> {
    let unusable = || ChainFault::Rejected {
        code: 0,
        message: "Multicall3 returned an unexpected number of results".to_owned(),
    };
    let results = IMulticall3::aggregate3Call::abi_decode_returns_validate(data)
        .map_err(|_invalid| unusable())?;
    if results.len() != expected {
        return Err(unusable());
    }
    let outcome = |result: IMulticall3::CallResult| {
        if result.success {
            CallOutcome::Returned(result.returnData)
        } else {
            CallOutcome::Reverted(result.returnData)
        }
    };
    Ok(results.into_iter().map(outcome).collect())
}

/// The reads of one exchange.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    /// The accounts whose code is looked up.
    pub(crate) code_accounts: Vec<Address>,
    /// Calls that run one after the other, if the network has Multicall3.
    pub(crate) calls: Vec<ContractCall>,
    /// Gas limit of the calls together.
    pub(crate) gas: u64,
    /// A further call, with its own sender and gas limit.
    pub(crate) exact_question: Option<Question>,
    /// Whether the answers may share an exchange with other requests.
    pub(crate) is_trusted: bool,
}

/// The answers to [`Reads`].
#[derive(Debug)]
pub(crate) struct ReadAnswers {
    pub(crate) have_code: Vec<bool>,
    /// One outcome per call; `None` if the calls used up all gas.
    pub(crate) outcomes: Option<Vec<CallOutcome>>,
    /// The revert data of the further call.
    pub(crate) exact_revert: Option<Bytes>,
}

/// Asks a node for all these reads, and returns the answers.
///
/// # Errors
/// No node answers.
pub(crate) async fn read(
    network: &NetworkContext,
    reads: Reads,
    priority: Priority,
) -> Result<ReadAnswers, ChainFault> {
    let Reads { code_accounts: codes, calls, gas, exact_question: exact, is_trusted } = reads;
    let (code_count, call_count) = (codes.len(), calls.len());
    let is_batched = !calls.is_empty() && network.has_multicall().await?;
    let mut questions: Vec<Question> = codes.into_iter().map(Question::Code).collect();
    let has_exact = exact.is_some();
    questions.extend(exact);
    if is_batched {
        questions.push(batch_question(network, calls, gas));
    } else {
        let from = network.signers.first().copied().unwrap_or_default();
        questions.extend(calls.into_iter().map(|call| call_question(from, call, gas)));
    }
    // Untrusted code gets a separate exchange, so that it cannot affect the answers to other requests.
    let answers = if is_trusted {
        network.node.ask(questions, priority).await?
    } else {
        network.chain.answers(questions).await?
    };
    let mut answers = answers.into_iter();
    let mut next = || answers.next().unwrap_or(Err(ChainFault::Unavailable { tried: Vec::new() }));
    let codes = (0..code_count).map(|_code| Ok(!next()?.is_empty())).collect::<Result<_, _>>()?;
    let exact_revert = if has_exact { CallOutcome::of(next())?.revert_data() } else { None };
    let outcomes = if is_batched {
        match CallOutcome::of(next())? {
            CallOutcome::Returned(data) => Some(batch_outcomes(&data, call_count)?),
            CallOutcome::Reverted(_data) => None,
        }
    } else {
        let each = (0..call_count).map(|_call| CallOutcome::of(next()));
        Some(each.collect::<Result<_, ChainFault>>()?)
    };
    Ok(ReadAnswers { have_code: codes, outcomes, exact_revert })
}
