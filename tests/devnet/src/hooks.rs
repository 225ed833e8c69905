//! Hooks of Uniswap v4 pools, both honest and dishonest ones.

use alloy_primitives::aliases::U24;
use alloy_primitives::{Address, U256};
use alloy_sol_types::{SolCall, SolValue, sol};

use crate::error::DevnetError;
use crate::full::Contracts;
use crate::node::Devnet;
use crate::own_contracts;

sol! {
    interface IHook {
        function setConduct(uint8 when, uint256 fromBlock, uint256 share, uint24 fee, uint24 otherFee)
            external;
    }
}

/// The rights of a hook, which are the lowest bits of its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookRights {
    /// The hook runs before and after a swap.
    Watches,
    /// The hook runs before and after a swap, and may change the amount that the swapper receives.
    ChangesOutput,
}

impl HookRights {
    fn bits(self) -> u16 {
        match self {
            Self::Watches => 0x00c0,
            Self::ChangesOutput => 0x00c4,
        }
    }
}

/// The condition under which a hook is dishonest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookWhen {
    Never,
    Always,
    /// In every call that does not come from the quoter.
    UnlessQuoted,
    /// In every call with a gas price, which most simulations lack.
    WhenGasCosts,
    /// From this block on.
    FromBlock(u64),
}

/// The conduct of a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HookConduct {
    pub when: HookWhen,
    /// The part of the output that a dishonest hook takes, in millionths. Above a million the swapper owes output.
    pub share: u32,
    /// The fee of a pool with a dynamic fee while the hook is honest, in hundredths of a basis point.
    pub fee: u32,
    /// The fee of a pool with a dynamic fee while the hook is dishonest, in hundredths of a basis point.
    pub other_fee: u32,
}

impl HookConduct {
    /// A hook that is always honest, with a dynamic fee of 0.05 %.
    pub const HONEST: Self = Self { when: HookWhen::Never, share: 0, fee: 500, other_fee: 500 };
}

impl Devnet {
    /// Deploys a hook on a full chain.
    ///
    /// # Errors
    /// The deployment failed.
    pub async fn deploy_hook(
        &self,
        rights: HookRights,
        conduct: HookConduct,
    ) -> Result<Address, DevnetError> {
        let chain = self.network.chain;
        let v4 = Contracts::of(chain).ok_or(DevnetError::UnknownChain(chain))?.v4;
        let mut chosen = [0; 20];
        getrandom::fill(&mut chosen).map_err(|error| DevnetError::Start(error.to_string()))?;
        let [high, low] = rights.bits().to_be_bytes();
        // v4 reads the lowest 14 bits of the address.
        chosen[18] = (chosen[18] & 0xc0) | high;
        chosen[19] = low;
        let hook = Address::from(chosen);
        let arguments = (v4.pool_manager, v4.quoter).abi_encode_params();
        self.deploy_at(hook, own_contracts::HOOK.creation_code(&arguments)?).await?;
        self.set_hook_conduct(hook, conduct).await?;
        Ok(hook)
    }

    /// Changes the conduct of a hook, for example after a trade was quoted.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn set_hook_conduct(
        &self,
        hook: Address,
        conduct: HookConduct,
    ) -> Result<(), DevnetError> {
        let HookConduct { when, share, fee, other_fee } = conduct;
        let (when, from_block) = match when {
            HookWhen::Never => (0, 0),
            HookWhen::Always => (1, 0),
            HookWhen::UnlessQuoted => (2, 0),
            HookWhen::WhenGasCosts => (3, 0),
            HookWhen::FromBlock(block) => (4, block),
        };
        let call = IHook::setConductCall {
            when,
            fromBlock: U256::from(from_block),
            share: U256::from(share),
            fee: U24::from(fee),
            otherFee: U24::from(other_fee),
        };
        self.send(&self.call_from_payer(hook, call.abi_encode())).await?;
        Ok(())
    }
}
