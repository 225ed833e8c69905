//! The contracts that settle x402 payments that the token alone cannot: the proxies for Permit2, and
//! Prism, which starts with no facilitators and no fee.

use alloy_sol_types::SolValue;

use super::addresses::Contracts;
use super::builder::Builder;
use crate::error::DevnetError;
use crate::own_contracts::{EXACT_PERMIT2_PROXY, PRISM, UPTO_PERMIT2_PROXY};

impl Builder<'_> {
    pub(super) async fn place_settling(&self) -> Result<(), DevnetError> {
        let Contracts { permit2, exact_permit2_proxy, upto_permit2_proxy, prism, .. } =
            self.contracts;
        let uses_permit2 = (permit2,).abi_encode_params();
        self.place(exact_permit2_proxy, EXACT_PERMIT2_PROXY.creation_code(&uses_permit2)?).await?;
        self.place(upto_permit2_proxy, UPTO_PERMIT2_PROXY.creation_code(&uses_permit2)?).await?;
        self.place(prism, PRISM.creation_code(&[])?).await
    }
}
